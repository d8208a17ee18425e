package pii

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
)

// missingSpellings are the texts that programs write where there is no value, and macros that were not expanded. A
// sender that hashes without looking hashes these: the digest has the right shape, is the same for everyone, and
// matches nobody.
//
// A text a real sender could mean stays out: the digest of any well-formed address or of any routable,
// private or loopback IPv4 address is accepted.
var missingSpellings = []string{
	"", " ", "  ", "\n", "\t", "\r\n",
	"null", "NULL", "Null", "(null)", "null\n", "<null>", "\\N",
	"undefined", "Undefined", "UNDEFINED",
	"none", "None", "NONE", "nil", "Nil", "NIL", "<nil>",
	"nan", "NaN", "NAN", "n/a", "N/A", "#N/A", "na", "NA",
	"0", "-1", "0.0", "false", "False", "FALSE", "true", "True", "TRUE",
	"-", "--", "_", ".", "?", "*", "\"\"", "''", "\"null\"", "[]", "{}", "[null]", "()",
	"[object Object]", "[object Undefined]", "[object Null]",
	"unknown", "Unknown", "UNKNOWN", "empty", "blank", "missing",
	"not set", "(not set)", "not provided", "(not provided)", "[redacted]", "redacted", "REDACTED",
	"@", "0.0.0.0", "::", "00000000-0000-0000-0000-000000000000", "00000000000000000000000000000000",
	"0000000000000000000000000000000000000000",
	"0000000000000000000000000000000000000000000000000000000000000000",
	"ffffffff-ffff-ffff-ffff-ffffffffffff", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
	"{{email}}", "{{ email }}", "{{EMAIL}}", "{{user.email}}", "{{user_email}}", "{{customer.email}}", "{{email_sha256}}",
	"{{em}}", "{email}", "{EMAIL}",
	"${email}", "${EMAIL}", "$email", "%%EMAIL%%", "%%email%%", "%email%", "%EMAIL%", "[email]", "[EMAIL]", "<email>",
	"#email#", "__EMAIL__", "*|EMAIL|*",
	"{{ip}}", "{{ ip }}", "{{IP}}", "{{ip_address}}", "{{client_ip}}", "{ip}", "${ip}", "%%IP%%", "%ip%", "[ip]", "__IP__",
	"{{ifa}}", "{{idfa}}", "{{gaid}}", "{{aaid}}", "{{advertising_id}}", "{ifa}", "${ifa}", "%%IFA%%", "[ifa]", "[idfa]",
	"__IDFA__", "__GAID__",
	"{{id}}", "{{user_id}}", "{{user.id}}", "{user_id}", "${user_id}", "%%USER_ID%%",
	"email", "e-mail", "Email", "EMAIL", "ip", "test", "Test", "TEST", "example", "localhost",
	"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", // the empty string, hashed twice
}

// junkDigests holds the digests of every missing spelling: lower-case hex of SHA-256, SHA-1 and MD5, the
// lengths an ifa may have. junkPrefix has a bit for each first two bytes in it, so that one
// load rules out nearly every real hash.
var (
	junkDigests map[string]struct{}
	junkPrefix  [1 << 16 / 64]uint64
)

func init() {
	junkDigests = make(map[string]struct{}, 3*len(missingSpellings))
	add := func(sum []byte) {
		junkDigests[hex.EncodeToString(sum)] = struct{}{}
		p := uint16(sum[0])<<8 | uint16(sum[1])
		junkPrefix[p>>6] |= 1 << (p & 63)
	}
	for _, s := range missingSpellings {
		b := []byte(s)
		s256, s1, m5 := sha256.Sum256(b), sha1.Sum(b), md5.Sum(b)
		add(s256[:])
		add(s1[:])
		add(m5[:])
	}
}

// Junk says whether hex, a string of lower-case hex digits, is the digest of a missing value.
func Junk(hex string) bool {
	p := uint16(hexValue[hex[0]])<<12 | uint16(hexValue[hex[1]])<<8 |
		uint16(hexValue[hex[2]])<<4 | uint16(hexValue[hex[3]])
	if junkPrefix[p>>6]&(1<<(p&63)) == 0 {
		return false
	}
	_, ok := junkDigests[hex]
	return ok
}
