// Package sluice holds no code: it is the root of the module, where the rules between its rooms are tested.
package sluice
