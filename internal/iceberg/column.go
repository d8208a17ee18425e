package iceberg

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unsafe"

	apache "github.com/apache/iceberg-go"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// Column is one column of a table: what Iceberg and Parquet call it, and how it becomes a member of a row and back.
// The columns of a table are written down once, as a list of these; every schema is made from that list.
type Column[T any] struct {
	id       int // Iceberg's field id; it never changes its meaning
	name     string
	kind     kind
	optional bool   // null where get says so
	encoding string // as parquet-go's struct tags spell it; "" is plain
	element  int    // field id of a list's elements
	bounded  bool   // snapshots list the least and greatest value; never of a column that can name a person

	// put adds the values of rows to a chunk, with their levels.
	put func(c *chunk, rows []*T)
	// set puts the values of consecutive rows into them. It copies what it keeps.
	set func(rows []T, values []parquet.Value)
}

// kind is a type of a column, as the three that have to agree on it name it.
type kind struct {
	iceberg apache.Type
	golang  reflect.Type // from which parquet-go derives its own
	logical string       // parquet-go's name for what the bytes mean
	leaf    leafType
}

var (
	uuidKind  = kind{apache.PrimitiveTypes.UUID, reflect.TypeFor[[16]byte](), "uuid", leafType{physical: format.FixedLenByteArray, width: 16}}
	textKind  = kind{apache.PrimitiveTypes.String, reflect.TypeFor[string](), "", leafType{physical: format.ByteArray, text: true}}
	hashKind  = kind{apache.FixedTypeOf(32), reflect.TypeFor[[32]byte](), "", leafType{physical: format.FixedLenByteArray, width: 32}}
	timeKind  = kind{apache.PrimitiveTypes.TimestampTz, reflect.TypeFor[int64](), "timestamp(microsecond:utc)", leafType{physical: format.Int64, width: 8}}
	int32Kind = kind{apache.PrimitiveTypes.Int32, reflect.TypeFor[int32](), "", leafType{physical: format.Int32, width: 4}}
	int64Kind = kind{apache.PrimitiveTypes.Int64, reflect.TypeFor[int64](), "", leafType{physical: format.Int64, width: 8}}
	floatKind = kind{apache.PrimitiveTypes.Float64, reflect.TypeFor[float64](), "", leafType{physical: format.Double, width: 8}}
	boolKind  = kind{apache.PrimitiveTypes.Bool, reflect.TypeFor[bool](), "", leafType{physical: format.Boolean, width: 1}}
	listKind  = kind{nil, reflect.TypeFor[[]int32](), "list", leafType{physical: format.Int32, width: 4}}
)

// Null makes a column optional.
func (c Column[T]) Null() Column[T] {
	c.optional = true
	return c
}

// Bound has snapshots list the least and greatest value of a column, so that readers pass over files. It is not for a
// column that can name a person.
func (c Column[T]) Bound() Column[T] {
	c.bounded = true
	return c
}

func (c *Column[T]) field() apache.NestedField {
	f := apache.NestedField{ID: c.id, Name: c.name, Type: c.kind.iceberg, Required: !c.optional}
	if c.element != 0 {
		f.Type = &apache.ListType{ElementID: c.element, Element: apache.PrimitiveTypes.Int32, ElementRequired: true}
	}
	return f
}

// path is where a Parquet schema has the column's leaf.
func (c *Column[T]) path() []string {
	if c.element != 0 {
		return []string{c.name, "list", "element"}
	}
	return []string{c.name}
}

// tag is the column as parquet-go's struct tags spell it.
func (c *Column[T]) tag() reflect.StructTag {
	words := []string{c.name}
	if c.optional {
		words = append(words, "optional")
	}
	if c.kind.logical != "" {
		words = append(words, c.kind.logical)
	}
	if c.encoding != "" && c.element == 0 {
		words = append(words, c.encoding)
	}
	words = append(words, fmt.Sprintf("id(%d)", c.id))
	tag := fmt.Sprintf("parquet:%q", strings.Join(words, ","))
	if c.element != 0 {
		tag += fmt.Sprintf(" parquet-element:%q", fmt.Sprintf(",%s,id(%d)", c.encoding, c.element))
	}
	return reflect.StructTag(tag)
}

// parquetSchema is the schema of a file with these columns, in this order. It is made through a struct type because
// parquet-go sorts the members of any other group by name.
func parquetSchema[T any](name string, columns []Column[T]) *parquet.Schema {
	var fields []reflect.StructField
	for i := range columns {
		c := &columns[i]
		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("C%d", c.id), Type: c.kind.golang, Tag: c.tag()})
	}
	return parquet.NewSchema(name, parquet.SchemaOf(reflect.New(reflect.StructOf(fields)).Interface()))
}

// leaf is how the column's values lie in a file.
func (c *Column[T]) leaf() leafType {
	l := c.kind.leaf
	l.path, l.encoding = c.path(), format.Plain
	l.dict, l.raw = c.encoding == "dict", c.encoding == "uncompressed"
	if c.encoding == "delta" {
		l.encoding = format.DeltaBinaryPacked
	}
	if c.optional {
		l.maxDef = 1
	}
	if c.element != 0 {
		l.maxDef, l.maxRep = 2, 1
	}
	return l
}

// Text is a text; an empty one is null in an optional column.
func Text[T any](id int, name, encoding string, member func(*T) *string) Column[T] {
	return Column[T]{
		id: id, name: name, kind: textKind, encoding: encoding,
		put: func(c *chunk, rows []*T) {
			for _, r := range rows {
				c.putText(*member(r))
			}
		},
		set: func(rows []T, values []parquet.Value) {
			n := 0
			for i := range values {
				n += len(values[i].ByteArray())
			}
			var all strings.Builder // one allocation for all of them
			all.Grow(n)
			last := ""
			for i := range values {
				v := values[i].ByteArray()
				if last != string(v) {
					at := all.Len()
					all.Write(v)
					last = all.String()[at:]
				}
				*member(&rows[i]) = last
			}
		},
	}
}

// Word is a text that a row keeps as something else, of which there are few.
func Word[T any](id int, name, encoding string, get func(*T) string, set func(*T, string)) Column[T] {
	return Column[T]{
		id: id, name: name, kind: textKind, encoding: encoding,
		put: func(c *chunk, rows []*T) {
			for _, r := range rows {
				c.putText(get(r))
			}
		},
		set: func(rows []T, values []parquet.Value) {
			for i := range values {
				set(&rows[i], string(values[i].ByteArray()))
			}
		},
	}
}

// Hash is a SHA-256: 32 bytes in a table, 64 hex digits in a row, "" and null where there is none.
func Hash[T any](id int, name, encoding string, member func(*T) *string) Column[T] {
	const size = 32
	return Column[T]{
		id: id, name: name, kind: hashKind, encoding: encoding, optional: true,
		put: func(c *chunk, rows []*T) {
			for _, r := range rows {
				c.putHash(*member(r))
			}
		},
		set: func(rows []T, values []parquet.Value) {
			all := make([]byte, 0, 2*size*len(values))
			for i := range values {
				v := values[i].ByteArray()
				if len(v) != size || isZero(v) {
					*member(&rows[i]) = ""
					continue
				}
				at := len(all)
				all = hex.AppendEncode(all, v)
				*member(&rows[i]) = unsafe.String(&all[at], 2*size) // never written again
			}
		},
	}
}

// isZero finds the hashes of zeros that versions before 2 wrote in the place of null. The validator takes such a value
// for junk, so no row ever had one.
func isZero(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return c != 0 })
}

// UUID is 16 bytes.
func UUID[T any](id int, name, encoding string, member func(*T) *[16]byte) Column[T] {
	return Column[T]{
		id: id, name: name, kind: uuidKind, encoding: encoding,
		put: func(c *chunk, rows []*T) {
			for _, r := range rows {
				c.present()
				c.putBytes(unsafe.String(&member(r)[0], 16))
			}
		},
		set: func(rows []T, values []parquet.Value) {
			for i := range values {
				copy(member(&rows[i])[:], values[i].ByteArray())
			}
		},
	}
}

// micro is how many units of a table's times make one of a row's: microseconds and seconds.
const micro = 1_000_000

// Time is seconds in a row, microseconds in a table.
func Time[T any](id int, name, encoding string, member func(*T) *int64) Column[T] {
	c := Int64(id, name, encoding, member)
	c.kind = timeKind
	c.put = func(c *chunk, rows []*T) {
		for _, r := range rows {
			c.present()
			c.putInt64(*member(r) * micro)
		}
	}
	c.set = func(rows []T, values []parquet.Value) {
		for i := range values {
			*member(&rows[i]) = values[i].Int64() / micro
		}
	}
	return c
}

// Int64 is a number.
func Int64[T any](id int, name, encoding string, member func(*T) *int64) Column[T] {
	return Column[T]{
		id: id, name: name, kind: int64Kind, encoding: encoding,
		put: func(c *chunk, rows []*T) {
			for _, r := range rows {
				c.present()
				c.putInt64(*member(r))
			}
		},
		set: func(rows []T, values []parquet.Value) {
			for i := range values {
				*member(&rows[i]) = values[i].Int64()
			}
		},
	}
}

// Int32 is a number.
func Int32[T any](id int, name, encoding string, member func(*T) *int32) Column[T] {
	return Column[T]{
		id: id, name: name, kind: int32Kind, encoding: encoding,
		put: func(c *chunk, rows []*T) {
			for _, r := range rows {
				c.present()
				c.putInt32(*member(r))
			}
		},
		set: func(rows []T, values []parquet.Value) {
			for i := range values {
				*member(&rows[i]) = values[i].Int32()
			}
		},
	}
}

// Bool is true or false.
func Bool[T any](id int, name string, member func(*T) *bool) Column[T] {
	return Column[T]{
		id: id, name: name, kind: boolKind,
		put: func(c *chunk, rows []*T) {
			for _, r := range rows {
				c.present()
				c.putBool(*member(r))
			}
		},
		set: func(rows []T, values []parquet.Value) {
			for i := range values {
				*member(&rows[i]) = values[i].Boolean()
			}
		},
	}
}

// Float is a number; has is nil where there always is one, else it says whether there is.
func Float[T any](id int, name string, member func(*T) *float64, has func(*T) *bool) Column[T] {
	return Column[T]{
		id: id, name: name, kind: floatKind, optional: has != nil,
		put: func(c *chunk, rows []*T) {
			for _, r := range rows {
				if has != nil && !*has(r) {
					c.null()
					continue
				}
				c.present()
				c.putFloat(*member(r))
			}
		},
		set: func(rows []T, values []parquet.Value) {
			for i := range values {
				null := values[i].IsNull()
				if *member(&rows[i]) = 0; !null {
					*member(&rows[i]) = values[i].Double()
				}
				if has != nil {
					*has(&rows[i]) = !null
				}
			}
		},
	}
}

// List is a list of small numbers; an empty one is null. Its levels: 0 is a null list, 2 an element, which
// repeats at 1 after the first.
func List[T any](id, element int, name, encoding string, member func(*T) *[]int32) Column[T] {
	return Column[T]{
		id: id, name: name, kind: listKind, optional: true, element: element, encoding: encoding,
		put: func(c *chunk, rows []*T) {
			for _, r := range rows {
				c.putList(*member(r))
			}
		},
		set: func(rows []T, values []parquet.Value) {
			numbers := make([]int32, 0, len(values))
			row, begin := -1, 0
			for i := range values {
				if values[i].RepetitionLevel() == 0 {
					row++
					begin = len(numbers)
					*member(&rows[row]) = nil
				}
				if !values[i].IsNull() {
					numbers = append(numbers, values[i].Int32())
					*member(&rows[row]) = numbers[begin:len(numbers):len(numbers)]
				}
			}
		},
	}
}

// split divides columns into those of these names and the others, both in table order.
func split[T any](columns []Column[T], names []string) (named, others []Column[T]) {
	for _, c := range columns {
		if slices.Contains(names, c.name) {
			named = append(named, c)
		} else {
			others = append(others, c)
		}
	}
	return named, others
}
