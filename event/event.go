// Package event says what a conversion event is, when it is valid, what is stored of it.
package event
