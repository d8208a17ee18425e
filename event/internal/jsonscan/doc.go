// Package jsonscan reads JSON text strictly, in one pass and without allocation.
//
// It accepts exactly what RFC 8259 allows, with valid UTF-8 and without lone surrogates. The caller drives the scanner:
// it decides at each value what to read, so no tree is built. [Names] finds duplicate member names, which RFC 8259
// leaves open. The caller checks that nothing follows the text and that nesting stays within [MaxLevels].
package jsonscan
