package event

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/bojanz/currency"
)

// Schema is a JSON Schema 2020-12 document of one event, made from Fields and Types. It rejects nothing that Decode
// accepts. It accepts more than Decode, because JSON Schema cannot express rules about the time of receipt, the
// spelling of numbers, lengths in bytes, the content of consent strings, duplicate names and plaintext.
//
// The bytes are shared: do not change them.
func Schema() []byte { return schemaText() }

var schemaText = sync.OnceValue(func() []byte {
	text, err := json.MarshalIndent(eventSchema(), "", "  ")
	if err != nil {
		panic(err) // it is made of constants
	}
	return append(text, '\n')
})

// node is a part of a JSON Schema, its keywords in the order in which people read them.
type node struct {
	Schema      string           `json:"$schema,omitempty"`
	ID          string           `json:"$id,omitempty"`
	Title       string           `json:"title,omitempty"`
	Description string           `json:"description,omitempty"`
	Type        any              `json:"type,omitempty"`
	Enum        []string         `json:"enum,omitempty"`
	Const       any              `json:"const,omitempty"`
	Pattern     string           `json:"pattern,omitempty"`
	MaxLength   int              `json:"maxLength,omitempty"`
	Minimum     *int             `json:"minimum,omitempty"`
	Maximum     *int             `json:"maximum,omitempty"`
	MinItems    int              `json:"minItems,omitempty"`
	MaxItems    int              `json:"maxItems,omitempty"`
	Items       *node            `json:"items,omitempty"`
	MaxMembers  int              `json:"maxProperties,omitempty"`
	Required    []string         `json:"required,omitempty"`
	Properties  map[string]*node `json:"properties,omitempty"`
	Additional  *node            `json:"additionalProperties,omitempty"`
	If          *node            `json:"if,omitempty"`
	Then        *node            `json:"then,omitempty"`
	AnyOf       []*node          `json:"anyOf,omitempty"`
	AllOf       []*node          `json:"allOf,omitempty"`
	Examples    []any            `json:"examples,omitempty"`
}

// Everything that counts as white space when a string is blank, spelled out: engines disagree about \s beyond ASCII.
const (
	blanks      = "\\t\\n\\v\\f\\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
	blankText   = "^[" + blanks + "]*$"
	writtenText = "[^" + blanks + "]"
)

// patterns are the shapes of values that are not blank.
var patterns = map[field]string{
	fieldEmail:         `^[0-9A-Fa-f]{64}$`,
	fieldIP:            `^[0-9A-Fa-f]{64}$`,
	fieldIFA:           `^[A-Za-z0-9._-]{8,128}$`,
	fieldPartner:       `^[!-~]+$`,
	fieldGPPString:     `^[A-Za-z0-9_.~-]+$`,
	fieldUSPrivacy:     `^1[YN-]{3}$`,
	fieldSchemaVersion: `^(1\.0|v1)$`,
}

func eventSchema() *node {
	root := &node{
		Schema: "https://json-schema.org/draft/2020-12/schema",
		ID:     "urn:sluice:schema:event:" + schemaVersion,
		Title:  "Conversion event",
		Description: "One event as a sender submits it. Null and blank optional members count as absent; members that are " +
			"not listed are dropped with a warning.",
		Type:       "object",
		Properties: map[string]*node{},
	}
	objects := map[string]*node{"": root}
	for i := range fieldTable {
		f := &fieldTable[i]
		name := f.Name()
		parent := objects[parentOf(f.Pointer)]
		child := fieldSchema(field(i))
		parent.Properties[name] = child
		if f.Required {
			parent.Required = append(parent.Required, name)
		}
		if f.Type == "object" {
			objects[f.Pointer] = child
		}
	}
	root.AllOf = []*node{
		{If: with("event_type", &node{Const: Custom}), Then: written("custom_event_name")},
		{If: with("value", &node{Type: "number"}), Then: written("currency_code")},
	}
	return root
}

// fieldSchema is the part of one field, without conditions on other fields.
func fieldSchema(f field) *node {
	info := &fieldTable[f]
	n := &node{Description: info.Meaning, Examples: []any{json.RawMessage(info.Example)}}
	n.Type = []string{info.Type, "null"}
	if info.Required {
		n.Type = info.Type
	}
	if info.When != "" {
		n.Description += " Required when " + info.When + "."
	}
	if p := patterns[f]; p != "" {
		n.Pattern = blankText + "|" + p
	}
	switch f {
	case fieldDataset:
		n.Pattern, n.MaxLength = writtenText, info.MaxBytes
	case fieldTimestamp:
		n.Minimum, n.Maximum = new(1), new(int(microsecondsFrom-1))
	case fieldType:
		n.Enum = TypeNames()
	case fieldIdentifiers:
		n.Properties = map[string]*node{}
		for _, name := range []string{"email_sha256", "ifa", "ip"} {
			n.AnyOf = append(n.AnyOf, written(name))
		}
	case fieldPrivacy:
		n.Properties = map[string]*node{}
		n.If, n.Then = written("gpp_string"), with("gpp_sid", &node{
			Type: "array", MinItems: 1, MaxItems: maxSIDs,
			Items: &node{Type: "integer", Minimum: new(minSID), Maximum: new(maxSID)},
		})
	case fieldCurrency:
		n.AnyOf = currencySchema()
	case fieldCustomData:
		n.MaxMembers = customDataMembers
		n.Additional = customSchema(customDataDepth - 1)
	case fieldEventID, fieldID:
		n.Type = nil // what is neither a string nor an integer is dropped
		text := &node{Type: []string{"string", "null"}}
		text.limit(info.MaxBytes)
		n.AnyOf = []*node{
			text,
			{Type: "number"},
			{Type: "boolean"},
			{Type: "array", Items: &node{}},
			{Type: "object"},
		}
	default:
		n.limit(info.MaxBytes)
	}
	return n
}

// limit says how long a text may be that is not blank: a blank one is absent, however long it is. Generators of clients
// read a condition; alternatives that differ in nothing but a length are types of their own to some.
func (n *node) limit(most int) {
	if most > 0 {
		n.If, n.Then = &node{Pattern: writtenText}, &node{MaxLength: most}
	}
}

// with asks for a member of an object.
func with(name string, value *node) *node {
	return &node{Required: []string{name}, Properties: map[string]*node{name: value}}
}

// written says that a member is a string, and not a blank one.
func written(name string) *node { return with(name, &node{Type: "string", Pattern: writtenText}) }

// currencySchema lists the codes, and as a pattern in every mixture of case: regular expressions of JSON Schema have no
// flags.
func currencySchema() []*node {
	codes := slices.Sorted(slices.Values(currency.GetCurrencyCodes()))
	var mixed []string
	for _, code := range codes {
		pattern := ""
		for _, letter := range code {
			pattern += "[" + string(letter) + string(unicode.ToLower(letter)) + "]"
		}
		mixed = append(mixed, pattern)
	}
	return []*node{
		{Type: "null"},
		{Enum: codes},
		{
			Description: "Accepted with a warning: other than capital letters.", Type: "string",
			Pattern: "^(?:" + strings.Join(mixed, "|") + ")$",
		},
		{Description: "Absent.", Type: "string", Pattern: blankText},
	}
}

// customSchema is a value inside custom_data that may hold so many levels of arrays and objects. Each type is a branch
// of its own: validators in strict mode reject a list of types.
func customSchema(levels int) *node {
	branches := []*node{{Type: []string{"string", "null"}}, {Type: "number"}, {Type: "boolean"}}
	if levels > 0 {
		inner := customSchema(levels - 1)
		branches = append(branches, &node{Type: "array", Items: inner}, &node{Type: "object", Additional: inner})
	}
	return &node{AnyOf: branches}
}
