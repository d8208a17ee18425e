package event

import "testing"

func BenchmarkIdentifier(b *testing.B) {
	for _, c := range []struct {
		name  string
		kind  identifierKind
		value string
	}{
		{"hash", kindEmail, "973dfe463ec85785f5f95af5ba3906eedb2d931c24e69824a89ea65dba4e813b"},
		{"hash-printable", kindEmail, "653dfe463ec85785f5f95af5ba3906eedb2d931c24e69824a89ea65dba4e813b"},
		{"ifa-uuid", kindIFA, "97987bca-ae59-4c7d-94ba-ee4f19ab8c21"},
		{"partner-key", kindPartner, "user_12345"},
		{"partner-uuid", kindPartner, "550e8400-e29b-41d4-a716-446655440000"},
		{"partner-nanoid", kindPartner, "V1StGXR8_Z5jdHi6B-myT"},
		{"partner-order", kindPartner, "ORD-2026-0001234"},
		{"partner-url", kindPartner, "https://shop.example/u?id=42&x=%2Fpath"},
		{"ifa-token", kindIFA, "9774d56d682e549c"},
		{"rejected-address", kindEmail, "jane.doe@example.com"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				checkIdentifier(c.kind, c.value)
			}
		})
	}
}
