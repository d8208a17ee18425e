// Package openapi holds tests of /openapi.json and /v1/schema/events with programs of others: generators make clients from
// them that compile and send to the running service, linters and a validator in strict mode find nothing.
package openapi
