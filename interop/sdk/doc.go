// Package sdk holds tests of the SDKs for Node and Python, packed and installed as users install them, against the running
// service on a network that fails; and of the quick starts of docs/sending.md.
package sdk
