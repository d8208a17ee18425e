package input

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func compareWithStandardCSV(t *testing.T, s string) {
	fields, _, err := splitRecord(nil, nil, []byte(s), ',')
	if err != nil || !utf8.ValidString(s) {
		return
	}
	r := csv.NewReader(strings.NewReader(s))
	r.FieldsPerRecord = -1
	want, stdErr := r.Read()
	// The two differ on purpose where a record is blank or holds breaks outside quotes, which never reach splitRecord.
	if stdErr != nil || strings.ContainsAny(s, "\r\n") {
		return
	}
	got := make([]string, len(fields))
	for i, f := range fields {
		got[i] = string(f)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q: got %q, want %q", s, got, want)
	}
}

func header2(text string, delimiter byte) ([]string, error) {
	c := &csvRows{Lines: Lines{r: small(text)}, delimiter: delimiter}
	return c.readHeader()
}

func TestHeader(t *testing.T) {
	names, err := header2("a, b ,\"c,d\"\n1,2,3\n", ',')
	if err != nil || !slices.Equal(names, []string{"a", "b", "c,d"}) {
		t.Errorf("got %q, %v", names, err)
	}
	for name, tt := range map[string]struct {
		text      string
		delimiter byte
		want      string
	}{
		"semicolons":      {"timestamp;event_type;email\n1;2;3\n", ',', "with a semicolon it would have 3"},
		"tabs":            {"timestamp\tevent_type\n", ',', "with a tab it would have 2"},
		"commas in a tsv": {"timestamp,event_type\n", '\t', "with a comma it would have 2"},
		"only CR":         {"a,b\r1,2\r", ',', "carriage return alone"},
		"no name":         {"a,,b\n", ',', "column 2 of the header has no name"},
		"twice":           {"a,b,a\n", ',', "is in the header twice"},
		"invalid UTF-8":   {"a,\xff\n", ',', "not valid UTF-8"},
		"open quote":      {"a,\"b\n1,2\n", ',', "never closed"},
	} {
		_, err := header2(tt.text, tt.delimiter)
		if e, ok := errors.AsType[*FileError](err); !ok || e.Line != 1 || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q in line 1", name, err, tt.want)
		}
	}
}

func bound(t *testing.T, m *Mapping, header ...string) *Mapping {
	t.Helper()
	m.delimiter = ','
	if err := m.bind(header); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMappingWritesEvents(t *testing.T) {
	m := bound(t, &Mapping{
		Map:     map[string]string{"when": "timestamp", "tier": "custom_data.tier", "sid": "privacy.gpp_sid"},
		Hash:    map[string]string{"email": "email_sha256", "addr": "ip"},
		Set:     map[string]string{"source": "crm"},
		Dataset: "spring",
	}, "when", "event_type", "email", "addr", "value", "currency_code", "mmt_only", "sid", "tier", "notes")
	if !slices.Equal(m.Unused, []string{"notes"}) {
		t.Errorf("got unused %q", m.Unused)
	}
	const email = `"email_sha256":"8e43ca37701228e74983efdbd0cff5c16b3b1e5d4e29a7c05626d4d25a018e11"`
	for _, tt := range []struct{ record, want string }{
		{
			`1794657600,purchase, Ana@Example.com ,192.0.2.1,9.50,EUR,TRUE,7;8,"go""ld",x`,
			`{"timestamp":1794657600,"currency_code":"EUR","event_type":"purchase","mmt_only":true,"value":9.50,"source":"crm","data_set_id":"spring",` +
				`"identifiers":{` + email + `,"ip":"37fcff24bf62035b2b08020afc08b4fecd4fcffce57ab23518e3561ff0fe76b9"},"privacy":{"gpp_sid":[7,8]},"custom_data":{"tier":"go\"ld"}}`,
		},
		{"2026-11-14T13:00:00+01:00,sign_up,ana@example.com,,,,,,,", `{"timestamp":1794657600,"event_type":"sign_up","source":"crm","data_set_id":"spring","identifiers":{` + email + `}}`},
		{"yesterday,sign_up,,,\"9,50\",,maybe,x,,", `{"timestamp":"yesterday","event_type":"sign_up","mmt_only":"maybe","value":"9,50","source":"crm","data_set_id":"spring","privacy":{"gpp_sid":"x"}}`},
	} {
		fields, _, err := splitRecord(nil, nil, []byte(tt.record), ',')
		if err != nil {
			t.Fatal(err)
		}
		got, fault := m.appendEvent(nil, fields)
		if fault != nil || !same(t, got, tt.want) {
			t.Errorf("got\n%s, %v, want\n%s", got, fault, tt.want)
		}
	}
}

// The service takes a row's event_id where its id is empty: a file may have both.
func TestMappingKeepsBothIDs(t *testing.T) {
	m := bound(t, &Mapping{Dataset: "spring"}, "id", "event_id", "timestamp", "event_type", "ifa")
	if len(m.Unused) > 0 {
		t.Errorf("got unused %q", m.Unused)
	}
	got, fault := m.appendEvent(nil, [][]byte{nil, []byte("e7"), []byte("1794657600"), []byte("purchase"), []byte("x")})
	want := `{"event_id":"e7","timestamp":1794657600,"event_type":"purchase","data_set_id":"spring","identifiers":{"ifa":"x"}}`
	if fault != nil || !same(t, got, want) {
		t.Errorf("got\n%s, %v, want\n%s", got, fault, want)
	}
}

func TestMappingRejectsRows(t *testing.T) {
	m := bound(t, &Mapping{Hash: map[string]string{"email": "email_sha256"}, Dataset: "d"}, "timestamp", "event_type", "email")
	for record, want := range map[string]string{
		"1,purchase":             "The row has 2 columns, the header 3.",
		"1,purchase,a@b.c,extra": "The row has 4 columns, the header 3.",
		"1,purchase,canary-9":    `In column "email" the value is not an e-mail address.`,
		"1,purchase,8e43ca37701228e74983efdbd0cff5c16b3b1e5d4e29a7c05626d4d25a018e11": `In column "email" the value is 64 hex digits`,
	} {
		fields, _, err := splitRecord(nil, nil, []byte(record), ',')
		if err != nil {
			t.Fatal(err)
		}
		_, fault := m.appendEvent(nil, fields)
		if fault == nil || !strings.HasPrefix(fault.Message, want) || strings.Contains(fault.Message+fault.Hint, "canary") {
			t.Errorf("%q: got %+v, want %q", record, fault, want)
		}
	}
}

func TestMappingRejectsHeaders(t *testing.T) {
	for name, tt := range map[string]struct {
		mapping Mapping
		header  string
		want    string
	}{
		"nothing":         {Mapping{}, "a,b", "no column fills data_set_id (--map COLUMN=data_set_id or --set data_set_id=…); no column fills timestamp (--map COLUMN=timestamp); no column fills event_type"},
		"no identifier":   {Mapping{}, "data_set_id,timestamp,event_type,Email", "no column fills an identifier: email_sha256, ifa or ip (--hash Email=email_sha256)"},
		"missing column":  {Mapping{Map: map[string]string{"when": "timestamp"}}, "a,b", `--map names the column "when", which is not in the header`},
		"unknown field":   {Mapping{Map: map[string]string{"a": "amount"}}, "a,b", `--map names the field "amount"`},
		"unknown set":     {Mapping{Set: map[string]string{"amount": "1"}}, "a,b", `--set names the field "amount"`},
		"hash of a value": {Mapping{Hash: map[string]string{"a": "ifa"}}, "a,b", "--hash fills email_sha256 and ip only"},
		"filled twice":    {Mapping{Map: map[string]string{"a": "value", "b": "value"}}, "a,b", "value would be filled twice"},
		"whole and parts": {Mapping{Map: map[string]string{"a": "custom_data.x", "b": "custom_data"}}, "a,b", "custom_data comes both whole and by its members"},
	} {
		err := tt.mapping.bind(strings.Split(tt.header, ","))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}

// same compares JSON texts by value.
func same(t *testing.T, a []byte, b string) bool {
	t.Helper()
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	return reflect.DeepEqual(x, y)
}
