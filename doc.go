// Package sluice holds no code: it is the root of the module, where the rules between its packages, and its pages, are
// tested.
package sluice
