package readers

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"sluice/interop/readers/sent"
)

// evolved is what is written now in the place of a form of the golden backup, which is read still.
var evolved = map[string]string{
	"before digest kind table until": "before digests kinds table until", // a tombstone of one identifier is a list of one
}

// The program writes the form of the golden backup: no member, column, property or version more or less. Who changes the form
// decides whether older programs must not read it, and raises the version of what has changed if so.
func TestGoldenForm(t *testing.T) {
	bin, dir, backup := program(t), filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
	smallDirectory(t, bin, dir)
	run(t, bin, "backup", backup, "--data", dir)
	want, got := form(t, unpackGolden(t, "backup")), form(t, backup)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		for was, now := range evolved {
			want[name] = strings.ReplaceAll(want[name], was, now)
		}
		if got[name] != want[name] {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got[name], want[name])
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("%s is new: %s", name, got[name])
	}
}

func run(t *testing.T, bin string, args ...string) string {
	t.Helper()
	out, err := exec.Command(bin, args...).Output()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// smallDirectory makes a data directory with everything of which the golden one has more.
func smallDirectory(t *testing.T, bin, dir string) {
	t.Helper()
	key, err := sent.CreateDataset(bin, dir, "shop-a")
	if err != nil {
		t.Fatal(err)
	}
	run(t, bin, "dataset", "create", "shop-b", "--data", dir)
	run(t, bin, "reader", "create", "follower", "--allow", "feed", "--data", dir)
	s, err := sent.Start(bin, dir, append(sent.ForEver(), "--commit-every", "200ms", "--partitions", "2")...)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Kill()
	_, err = sent.Provision("shop-b", func(args ...string) error {
		run(t, bin, append(args, "--data", dir)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	gen := sent.New(10)
	lines, err := s.Send(key, append(gen.Events("shop-a", 30, 1, time.Now()), gen.Rejected("shop-a", time.Now())), "key")
	if err == nil {
		err = s.AwaitProcessed(key, lines[0].SubmissionID)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if hash, ok := l.Row["email_sha256"].(string); ok {
			run(t, bin, "erase", "--email-sha256", hash, "--yes", "--data", dir)
			break
		}
	}
	s.Stop()
}

// form is what the files of a backup look like, whatever is in them.
func form(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	out["backup.json"] = members(t, read(t, dir, "backup.json")) + " " + value(t, read(t, dir, "backup.json"), "format")
	out["stream/0.json"] = members(t, read(t, dir, "stream/0.json"))
	line, _, _ := bytes.Cut(read(t, dir, "audit.jsonl"), []byte("\n"))
	out["audit.jsonl"] = members(t, line)
	registryForm(t, dir, out)
	for p := range 2 {
		frameForm(t, read(t, dir, fmt.Sprintf("stream/%d.frames", p)), out)
	}
	for _, table := range Tables {
		tableForm(t, filepath.Join(dir, "lake", table.Name), table.Name, out)
	}
	return out
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// members are the names of the members of an object, and those of a version with its value.
func members(t *testing.T, object []byte) string {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(object, &m); err != nil {
		t.Fatalf("%.100s: %v", object, err)
	}
	var out []string
	for name, v := range m {
		if name == "v" {
			name += "=" + string(v)
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func value(t *testing.T, object []byte, name string) string {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(object, &m); err != nil {
		t.Fatal(err)
	}
	return string(m[name])
}

// registryForm adds what the entries of each bucket look like.
func registryForm(t *testing.T, dir string, out map[string]string) {
	t.Helper()
	lines := bufio.NewScanner(bytes.NewReader(read(t, dir, "registry.ndjson")))
	for lines.Scan() {
		var e struct {
			Bucket, Key string
			Value       []byte
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		head, _, _ := bytes.Cut(e.Value, []byte("\n")) // of a chunk of the suppression list
		switch {
		case e.Bucket == "alarms": // they come and go
		case e.Bucket == "settings":
			out["setting "+e.Key] = fmt.Sprint(len(e.Value) > 0)
		case json.Valid(head):
			name := "bucket " + e.Bucket
			forms := append(strings.Split(out[name], "\n"), members(t, head))
			slices.Sort(forms)
			out[name] = strings.TrimSpace(strings.Join(slices.Compact(forms), "\n"))
		default:
			t.Errorf("bucket %s has an entry that is no JSON", e.Bucket)
		}
	}
}

// frameForm adds the versions of frames and records.
func frameForm(t *testing.T, b []byte, out map[string]string) {
	t.Helper()
	const before, header = 12, 10 // of a frame: its number and length; of its first record: the frame's header
	for len(b) > before {
		n := int(binary.LittleEndian.Uint32(b[8:]))
		frame := b[before : before+n]
		b = b[before+n:]
		out[fmt.Sprintf("frame %s version %d", frame[:3], frame[3])] = "is there"
		if _, w := binary.Uvarint(frame[header:]); binary.LittleEndian.Uint16(frame[8:]) > 0 && w > 0 {
			out[fmt.Sprintf("record version %d", frame[header+w])] = "is there"
		}
	}
}

// describedText is the description of a column, which may change.
var describedText = regexp.MustCompile(`"doc":"(?:[^"\\]|\\.)*",`)

// tableForm adds the schema, the properties and what a Parquet file says of itself.
func tableForm(t *testing.T, dir, name string, out map[string]string) {
	t.Helper()
	hint := string(read(t, dir, "metadata/version-hint.text"))
	document := read(t, dir, "metadata/v"+hint+".metadata.json")
	out[name] = members(t, document)
	for _, what := range []string{"format-version", "schemas", "partition-specs", "sort-orders"} {
		out[name+" "+what] = describedText.ReplaceAllString(value(t, document, what), "")
	}
	properties := []byte(value(t, document, "properties"))
	out[name+" properties"] = members(t, properties) + " " + value(t, properties, "sluice.table-version")
	files, err := filepath.Glob(filepath.Join(dir, "data", "*", "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		out[name+" Parquet"] = "no file"
		return
	}
	b := read(t, "", files[0])
	f, err := parquet.OpenFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	var codecs []string
	for _, c := range f.Metadata().RowGroups[0].Columns {
		codecs = append(codecs, c.MetaData.Codec.String())
	}
	var keys []string
	for _, kv := range f.Metadata().KeyValueMetadata {
		keys = append(keys, kv.Key)
	}
	out[name+" Parquet"] = fmt.Sprint(f.Metadata().CreatedBy, f.Metadata().Version, keys, codecs, f.Schema())
}
