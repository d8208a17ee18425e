package catalog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"sluice/internal/measure"
)

// Views knows the settings of the measurement views.
type Views interface {
	Settings(ctx context.Context) (measure.Settings, error)
}

// viewDialects are those that engines take from a catalog. Spark runs whatever it finds, so it gets its own.
var viewDialects = []string{"trino", "spark"}

// warehouseName is what a client may call the warehouse. It is the prefix of its paths from then on, and the catalog
// that the names in a view belong to.
var warehouseName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// warehouse takes the prefix out of a path, if it has one.
func warehouse(parts []string) (rest []string, prefix string) {
	if route, _ := find(parts); route != nil || len(parts) < 3 || parts[0] != "v1" ||
		!warehouseName.MatchString(parts[1]) {
		return parts, ""
	}
	return slices.Delete(slices.Clone(parts), 1, 2), parts[1]
}

func views(_ *Catalog, w http.ResponseWriter, r *http.Request, names []string) error {
	if err := known(names[0]); err != nil {
		return err
	}
	return writeJSON(w, r, http.StatusOK, map[string]any{"identifiers": identifiers(measure.Names())})
}

func knownView(names []string) error {
	if known(names[0]) != nil || !slices.Contains(measure.Names(), names[1]) {
		return reject(http.StatusNotFound, "NoSuchViewException", "The view does not exist. There are "+
			strings.Join(measure.Names(), ", ")+" in the namespace "+namespace+".")
	}
	return nil
}

func viewExists(_ *Catalog, w http.ResponseWriter, _ *http.Request, names []string) error {
	return noContent(w, knownView(names))
}

// loadView hands a view out, with the settings that were saved.
func loadView(c *Catalog, w http.ResponseWriter, r *http.Request, names []string) error {
	if err := knownView(names); err != nil {
		return err
	}
	settings, err := c.Views.Settings(r.Context())
	if err != nil {
		return err
	}
	events, err := c.documents.get(r.Context(), c.Tables, "events")
	if err != nil {
		return err
	}
	out, err := viewDocument(names[1], settings, events.document.Bytes, r.PathValue("warehouse"))
	if err != nil {
		return err
	}
	return writeJSON(w, r, http.StatusOK, out)
}

type object = map[string]any

// viewDocument is a view as Iceberg's view specification has it. The types of its columns are those of the table of
// events.
func viewDocument(name string, settings measure.Settings, events []byte, catalog string) (object, error) {
	var representations []object
	var view measure.View
	for _, dialect := range viewDialects {
		d, _ := measure.LookupDialect(dialect)
		all, err := measure.Views(d, settings)
		if err != nil {
			return nil, err
		}
		view = all[slices.IndexFunc(all, func(v measure.View) bool { return v.Name == name })]
		representations = append(representations, object{"type": "sql", "sql": view.Query, "dialect": dialect})
	}
	table, err := readTable(events)
	if err != nil {
		return nil, err
	}
	var fields []object
	for i, column := range view.Columns() {
		kind, err := table.typeOf(column, 1000+i)
		if err != nil {
			return nil, err
		}
		doc := cmp.Or(column.Doc, table.fields[column.Of].Doc)
		fields = append(fields, object{"id": i + 1, "name": column.Name, "required": false, "type": kind, "doc": doc})
	}
	text, err := json.Marshal(representations)
	if err != nil {
		return nil, err
	}
	// Another text is another version. The number says nothing more.
	version := int32(crc32.ChecksumIEEE(text) >> 1)
	one := object{
		"version-id": version, "timestamp-ms": table.Updated, "schema-id": 0,
		"summary":         map[string]string{"engine-name": "sluice"},
		"representations": representations, "default-namespace": []string{namespace},
	}
	if catalog != "" {
		one["default-catalog"] = catalog
	}
	location := strings.TrimSuffix(table.Location, "/events") + "/views/" + name
	return object{
		"metadata-location": fmt.Sprintf("%s/metadata/%d.metadata.json", location, version), "config": map[string]string{},
		"metadata": object{
			"view-uuid": viewID(table.ID, name), "format-version": 1, "location": location, "current-version-id": version,
			"versions":    []object{one},
			"version-log": []object{{"version-id": version, "timestamp-ms": table.Updated}},
			"schemas":     []object{{"type": "struct", "schema-id": 0, "fields": fields}},
			"properties":  map[string]string{"comment": measure.Doc(name)},
		},
	}, nil
}

// viewID is always the same for a view of a table.
func viewID(table, name string) string {
	sum := sha256.Sum256([]byte("view " + name + " of " + table))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // a UUID of version 8: the maker's own
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// eventsTable is what a view takes from the table of events.
type eventsTable struct {
	ID       string `json:"table-uuid"`
	Location string `json:"location"`
	Updated  int64  `json:"last-updated-ms"`
	Current  int    `json:"current-schema-id"`
	Schemas  []struct {
		ID     int           `json:"schema-id"`
		Fields []eventsField `json:"fields"`
	} `json:"schemas"`
	fields map[string]eventsField // of the current schema
}

type eventsField struct {
	Name string          `json:"name"`
	Type json.RawMessage `json:"type"`
	Doc  string          `json:"doc"`
}

func readTable(document []byte) (*eventsTable, error) {
	t := &eventsTable{fields: map[string]eventsField{}}
	if err := json.Unmarshal(document, t); err != nil {
		return nil, err
	}
	for _, schema := range t.Schemas {
		for _, field := range schema.Fields {
			if schema.ID == t.Current {
				t.fields[field.Name] = field
			}
		}
	}
	return t, nil
}

// typeOf is the type of a column of a view. A list has an id of its own, which no other column may have.
func (t *eventsTable) typeOf(column measure.ViewColumn, id int) (any, error) {
	if column.Type != "" {
		return column.Type, nil
	}
	field, there := t.fields[column.Of]
	if !there {
		return nil, fmt.Errorf("the table events has no column %s", column.Of)
	}
	var list object
	if json.Unmarshal(field.Type, &list) != nil {
		return field.Type, nil
	}
	list["element-id"] = id
	return list, nil
}
