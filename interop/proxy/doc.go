// Package proxy puts a real nginx before the operators' listener.
package proxy
