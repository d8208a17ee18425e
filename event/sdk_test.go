package event

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// The SDKs know the same event types, and have the license of the project.
func TestSDKsKnowTheTypes(t *testing.T) {
	var want []string
	for _, info := range Types() {
		want = append(want, info.Name)
	}
	for file, block := range map[string]string{
		"../sdk/node/index.d.ts":                    `(?s)export type EventType =(.*?);`,
		"../sdk/python/src/sluice_client/_types.py": `(?s)EventType = Literal\[(.*?)\n\]`,
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(block).FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s has no event types", file)
		}
		var got []string
		for _, m := range regexp.MustCompile(`"(\w+)"`).FindAllSubmatch(found[1], -1) {
			got = append(got, string(m[1]))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", file, got, want)
		}
	}
	own, err := os.ReadFile("../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"../sdk/node/LICENSE", "../sdk/python/LICENSE"} {
		if text, err := os.ReadFile(file); err != nil || string(text) != string(own) {
			t.Errorf("%s is not the license of the project: %v", file, err)
		}
	}
}
