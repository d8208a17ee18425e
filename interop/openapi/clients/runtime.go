// Package clients pins the generators of Go clients and what their clients import. A test copies this module, generates
// into the copy and runs the programs of testdata there.
package clients

import (
	_ "github.com/oapi-codegen/runtime"
	_ "github.com/ogen-go/ogen/ogenerrors"
)
