// Package gpp reads Global Privacy Platform strings.
package gpp
