package identifier

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const (
	hash      = "973dfe463ec85785f5f95af5ba3906eedb2d931c24e69824a89ea65dba4e813b"
	otherHash = "84d1edf2dbbd8dbb2f0f8d0b2d3ef6a3d9be0e6f53e9ef1bd3f9d0b7e0d2c3a1"
)

func TestRead(t *testing.T) {
	upper := strings.ToUpper(hash)
	for name, c := range map[string]struct {
		file string
		want []string
		err  string
	}{
		"csv":                 {"email_sha256,ifa\n" + upper + ",\n,AEBE52E7-03EE-455A-B3C4-E57283966239\n", []string{"email_sha256 " + hash, "ifa aebe52e7-03ee-455a-b3c4-e57283966239"}, ""},
		"csv with a mark":     {"\xef\xbb\xbfip\r\n" + hash + "\r\n", []string{"ip_sha256 " + hash}, ""},
		"column of the table": {"ip_sha256\n" + hash + "\n", []string{"ip_sha256 " + hash}, ""},
		"quotes":              {"partner_id\n\"p,1\"\n", []string{"partner_id p,1"}, ""},
		"ndjson":              {"\n{\"ip\":\"" + hash + "\",\"ifa\":null}\n\n{\"partner_id\":\"P-1\"}", []string{"ip_sha256 " + hash, "partner_id P-1"}, ""},
		"empty":               {"", nil, "the file is empty"},
		"header alone":        {"ifa\n", nil, ""},
		"plaintext":           {"email_sha256\njane@example.com\n", nil, "row 1: the email_sha256 is named by its SHA-256"},
		"control characters":  {"ip\n" + strings.Repeat("\x11", 64) + "\n", nil, "row 1: the ip is named by its SHA-256"},
		"address as ifa":      {"ifa\njane@example.com\n", nil, "row 1: no event has such an ifa"},
		"token":               {"ifa\nTV.ab-12_\n", []string{"ifa TV.ab-12_"}, ""},
		"name as partner_id":  {"partner_id\njane doe\n", nil, "row 1: no event has such a partner_id"},
		"other column":        {"email\nx\n", nil, "the columns of the file"},
		"no header":           {hash + "\n", nil, "the columns of the file"},
		"other member":        {`{"phone":"1"}`, nil, "row 1: the columns of the file"},
		"a number":            {`{"ifa":1}`, nil, "row 1: it is not a JSON object"},
		"a member twice":      {`{"ifa":"aaaa1111"}` + "\n" + `{"email_sha256":"` + hash + `","email_sha256":"` + otherHash + `"}`, []string{"ifa aaaa1111"}, "row 2: email_sha256 is there twice"},
		"twice, escaped":      {`{"ifa":"aaaa1111","\u0069fa":"bbbb2222"}`, nil, "row 1: ifa is there twice"},
		"twice, unknown":      {`{"jane":"aaaa1111","jane":"bbbb2222"}`, nil, "row 1: the columns of the file"},
		"more than an object": {`{"ifa":"aaaa1111"} x`, nil, "row 1: it is not a JSON object"},
		"too few values":      {"ifa,ip\nx\n", nil, "row 1: it is not CSV"},
		"too many":            {"ifa\naaaa1111\nbbbb2222\ncccc3333\n", []string{"ifa aaaa1111", "ifa bbbb2222"}, "row 3: the file has more than 2 rows"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			_, err := Read(strings.NewReader(c.file), 2, func(k Kind, v string) error {
				got = append(got, string(k)+" "+v)
				return nil
			})
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got error %v, want %q", err, c.err)
			}
			if err != nil && (strings.Contains(err.Error(), "jane") || strings.Contains(err.Error(), hash) || strings.Contains(err.Error(), otherHash)) {
				t.Errorf("the error holds a value: %v", err)
			}
			slices.Sort(got)
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
