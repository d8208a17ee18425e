package metadata

import (
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// A metadata document names every file of the table, and JSON with a flipped bit is mostly still JSON. So it ends
// with a checksum of itself: a line of 32 blanks and tabs, the bits of a CRC-32C, which every JSON reader passes
// over. As a member of the document it would be carried on by other programs that change the rest.

// SealLength is how long that line is. Two files of one name that end alike are the same.
const SealLength = 33

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func seal(document []byte) []byte {
	sum := crc32.Checksum(document, castagnoli)
	for bit := range 32 {
		document = append(document, " \t"[sum>>bit&1])
	}
	return append(document, '\n')
}

// Unseal cuts the checksum off. ok is false where the document is not what was sealed; one without a checksum was
// written by another program and is taken as it is.
func Unseal(b []byte) (document []byte, ok bool) {
	at := len(b) - SealLength
	if at < 0 || b[len(b)-1] != '\n' {
		return b, true
	}
	sum := uint32(0)
	for bit, c := range b[at : len(b)-1] {
		switch c {
		case ' ':
		case '\t':
			sum |= 1 << bit
		case '\r', '\n':
			return b, false // a tab with a flipped bit
		default:
			return b, true // a damaged line is no JSON, either
		}
	}
	return b[:at], crc32.Checksum(b[:at], castagnoli) == sum
}

// Avro has no checksums, and one flipped bit makes another path or another bound of it. So the names of lists and
// manifests end with one of what is in them. The name of a list stands in the metadata, which has a checksum of
// itself, and those of manifests in the list: nothing in the chain can change unseen.

// SealedName is the name of a file that ends with a checksum of what is in it.
func SealedName(stem string, content []byte, suffix string) string {
	return fmt.Sprintf("%s/%s-%08x%s", Dir, stem, crc32.Checksum(content, castagnoli), suffix)
}

// Sealed says whether a file holds what its name says. A name without a checksum is another program's: it is
// taken as it is.
func Sealed(name string, content []byte, suffix string) bool {
	stem, ok := strings.CutSuffix(name, suffix)
	at := strings.LastIndexByte(stem, '-')
	if !ok || len(stem)-at-1 != 8 {
		return true
	}
	sum, err := strconv.ParseUint(stem[at+1:], 16, 32)
	return err != nil || uint32(sum) == crc32.Checksum(content, castagnoli)
}
