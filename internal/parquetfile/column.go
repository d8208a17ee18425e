package parquetfile

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unsafe"

	"github.com/parquet-go/parquet-go/format"
)

// Column is one column of a file: what it is called, and how it becomes a member of a row and back. The columns are
// written down once, as a list of these; every schema is made from that list.
type Column[T any] struct {
	Field
	encoding string // as parquet-go's struct tags spell it; "" is plain

	// put adds the values of rows to a chunk, with their levels.
	put func(c *chunk, rows []T)
	// load puts the values at these places into rows: see cursor.take. Rows may share memory for texts.
	load func(rows []T, places []int32, v *pageValues)
}

// Type says what the values of a column are.
type Type int

// The types of columns.
const (
	TypeUUID  Type = iota // 16 bytes
	TypeText              // UTF-8
	TypeHash              // 32 bytes
	TypeTime              // Microseconds since 1970-01-01, UTC
	TypeInt32             //
	TypeInt64             //
	TypeFloat             // 64 bits
	TypeBool              //
	TypeList              // of int32
)

// kind is a type of a column, as the two that have to agree on it name it.
type kind struct {
	golang  reflect.Type // from which parquet-go derives its own
	logical string       // parquet-go's name for what the bytes mean
	leaf    leafType
}

var kinds = [...]kind{
	TypeUUID:  {reflect.TypeFor[[16]byte](), "uuid", leafType{physical: format.FixedLenByteArray, width: 16}},
	TypeText:  {reflect.TypeFor[string](), "", leafType{physical: format.ByteArray, text: true}},
	TypeHash:  {reflect.TypeFor[[32]byte](), "", leafType{physical: format.FixedLenByteArray, width: 32}},
	TypeTime:  {reflect.TypeFor[int64](), "timestamp(microsecond:utc)", leafType{physical: format.Int64, width: 8}},
	TypeInt32: {reflect.TypeFor[int32](), "", leafType{physical: format.Int32, width: 4}},
	TypeInt64: {reflect.TypeFor[int64](), "", leafType{physical: format.Int64, width: 8}},
	TypeFloat: {reflect.TypeFor[float64](), "", leafType{physical: format.Double, width: 8}},
	TypeBool:  {reflect.TypeFor[bool](), "", leafType{physical: format.Boolean, width: 1}},
	TypeList:  {reflect.TypeFor[[]int32](), "list", leafType{physical: format.Int32, width: 4}},
}

// Field is a column as a schema describes it.
type Field struct {
	ID       int // it never changes its meaning
	Name     string
	Type     Type
	Optional bool
	Element  int  // field id of a list's elements; 0 in any other column
	Bounded  bool // whoever lists files may list its least and greatest value: it never names a person
}

// Null makes a column optional.
func (c Column[T]) Null() Column[T] {
	c.Optional = true
	return c
}

// Bound lets whoever lists files list the least and greatest value of a column, so that readers pass over files. It is
// not for a column that can name a person.
func (c Column[T]) Bound() Column[T] {
	c.Bounded = true
	return c
}

// path is where a Parquet schema has the column's leaf.
func (c *Column[T]) path() []string {
	if c.Element != 0 {
		return []string{c.Name, "list", "element"}
	}
	return []string{c.Name}
}

// tag is the column as parquet-go's struct tags spell it.
func (c *Column[T]) tag() reflect.StructTag {
	options := []string{c.Name}
	if c.Optional {
		options = append(options, "optional")
	}
	if logical := kinds[c.Type].logical; logical != "" {
		options = append(options, logical)
	}
	if c.encoding != "" && c.Element == 0 {
		options = append(options, c.encoding)
	}
	options = append(options, fmt.Sprintf("id(%d)", c.ID))
	tag := fmt.Sprintf("parquet:%q", strings.Join(options, ","))
	if c.Element != 0 {
		tag += fmt.Sprintf(" parquet-element:%q", fmt.Sprintf(",%s,id(%d)", c.encoding, c.Element))
	}
	return reflect.StructTag(tag)
}

// leaf is how the column's values lie in a file.
func (c *Column[T]) leaf() leafType {
	l := kinds[c.Type].leaf
	l.path, l.encoding = c.path(), format.Plain
	l.dict, l.raw = c.encoding == "dict", c.encoding == "uncompressed"
	if c.encoding == "delta" {
		l.encoding = format.DeltaBinaryPacked
	}
	if c.Optional {
		l.maxDef = 1
	}
	if c.Element != 0 {
		l.maxDef, l.maxRep = 2, 1
	}
	return l
}

// Text is a text; an empty one is null in an optional column.
func Text[T any](id int, name, encoding string, member func(*T) *string) Column[T] {
	return Column[T]{
		Field: Field{ID: id, Name: name, Type: TypeText}, encoding: encoding,
		put: func(c *chunk, rows []T) {
			for i := range rows {
				c.putText(*member(&rows[i]))
			}
		},
		load: func(rows []T, places []int32, v *pageValues) {
			for i, place := range places {
				*member(&rows[i]) = v.text(place)
			}
		},
	}
}

// Enum is a text that a row keeps as something else, of which there are few.
func Enum[T any](id int, name, encoding string, get func(*T) string, set func(*T, string)) Column[T] {
	return Column[T]{
		Field: Field{ID: id, Name: name, Type: TypeText}, encoding: encoding,
		put: func(c *chunk, rows []T) {
			for i := range rows {
				c.putText(get(&rows[i]))
			}
		},
		load: func(rows []T, places []int32, v *pageValues) {
			for i, place := range places {
				set(&rows[i], v.text(place))
			}
		},
	}
}

// Hash is a SHA-256: 32 bytes in a file, 64 hex digits in a row, "" and null where there is none.
func Hash[T any](id int, name, encoding string, member func(*T) *string) Column[T] {
	const size = 32
	return Column[T]{
		Field: Field{ID: id, Name: name, Type: TypeHash, Optional: true}, encoding: encoding,
		put: func(c *chunk, rows []T) {
			for i := range rows {
				c.putHash(*member(&rows[i]))
			}
		},
		load: func(rows []T, places []int32, v *pageValues) {
			all := make([]byte, 0, 2*size*len(places))
			for i, place := range places {
				if place < 0 {
					*member(&rows[i]) = ""
					continue
				}
				at := len(all)
				all = hex.AppendEncode(all, v.fixed(place, size))
				*member(&rows[i]) = unsafe.String(&all[at], 2*size) // never written again
			}
		},
	}
}

// UUID is 16 bytes.
func UUID[T any](id int, name, encoding string, member func(*T) *[16]byte) Column[T] {
	return Column[T]{
		Field: Field{ID: id, Name: name, Type: TypeUUID}, encoding: encoding,
		put: func(c *chunk, rows []T) {
			for i := range rows {
				c.present()
				c.putBytes(unsafe.String(&member(&rows[i])[0], 16))
			}
		},
		load: func(rows []T, places []int32, v *pageValues) {
			for i, place := range places {
				copy(member(&rows[i])[:], v.fixed(place, 16))
			}
		},
	}
}

// Micro is how many units of a file's times make one of a row's: microseconds and seconds.
const Micro = 1_000_000

// Time is seconds in a row, microseconds in a file.
func Time[T any](id int, name, encoding string, member func(*T) *int64) Column[T] {
	put := func(c *chunk, v int64) { c.putInt(v * Micro) }
	get := func(v *pageValues, place int32) int64 { return at(v.int64s, place) / Micro }
	return plain(id, name, encoding, TypeTime, member, put, get)
}

// Int64 is a number.
func Int64[T any](id int, name, encoding string, member func(*T) *int64) Column[T] {
	get := func(v *pageValues, place int32) int64 { return at(v.int64s, place) }
	return plain(id, name, encoding, TypeInt64, member, (*chunk).putInt, get)
}

// plain is a column that always has a value, the same one in a file and in a row.
func plain[T, V any](
	id int, name, encoding string, t Type, member func(*T) *V, put func(*chunk, V), get func(*pageValues, int32) V,
) Column[T] {
	return Column[T]{
		Field: Field{ID: id, Name: name, Type: t}, encoding: encoding,
		put: func(c *chunk, rows []T) {
			for i := range rows {
				c.present()
				put(c, *member(&rows[i]))
			}
		},
		load: func(rows []T, places []int32, v *pageValues) {
			for i, place := range places {
				*member(&rows[i]) = get(v, place)
			}
		},
	}
}

// Int32 is a number.
func Int32[T any](id int, name, encoding string, member func(*T) *int32) Column[T] {
	put := func(c *chunk, v int32) { c.putInt(int64(v)) }
	get := func(v *pageValues, place int32) int32 { return at(v.int32s, place) }
	return plain(id, name, encoding, TypeInt32, member, put, get)
}

// Bool is true or false.
func Bool[T any](id int, name string, member func(*T) *bool) Column[T] {
	return plain(id, name, "", TypeBool, member, (*chunk).putBool, (*pageValues).flag)
}

// Float is a number; has is nil where there always is one, else it says whether there is.
func Float[T any](id int, name string, member func(*T) *float64, has func(*T) *bool) Column[T] {
	return Column[T]{
		Field: Field{ID: id, Name: name, Type: TypeFloat, Optional: has != nil},
		put: func(c *chunk, rows []T) {
			for i := range rows {
				if has != nil && !*has(&rows[i]) {
					c.null()
					continue
				}
				c.present()
				c.putFloat(*member(&rows[i]))
			}
		},
		load: func(rows []T, places []int32, v *pageValues) {
			for i, place := range places {
				*member(&rows[i]) = at(v.floats, place)
				if has != nil {
					*has(&rows[i]) = place >= 0
				}
			}
		},
	}
}

// List is a list of small numbers; an empty one is null. Its levels: 0 is a null list, 2 an element, which
// repeats at 1 after the first.
func List[T any](id, element int, name, encoding string, member func(*T) *[]int32) Column[T] {
	return Column[T]{
		Field: Field{ID: id, Name: name, Type: TypeList, Optional: true, Element: element}, encoding: encoding,
		put: func(c *chunk, rows []T) {
			for i := range rows {
				c.putList(*member(&rows[i]))
			}
		},
		load: func(rows []T, ends []int32, v *pageValues) {
			begin := int32(0)
			for i, end := range ends {
				if *member(&rows[i]) = nil; begin < end {
					*member(&rows[i]) = v.int32s[begin:end:end]
				}
				begin = end
			}
		},
	}
}

// Named are the columns of these names, in the order in which they are.
func Named[T any](columns []Column[T], names []string) (out []Column[T]) {
	for _, c := range columns {
		if slices.Contains(names, c.Name) {
			out = append(out, c)
		}
	}
	return out
}
