// Package send holds tests of the uploader on a network that fails.
package send
