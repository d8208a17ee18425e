package parquetfile

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unsafe"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// Column is one column of a file: what it is called, and how it becomes a member of a row and back. The columns are
// written down once, as a list of these; every schema is made from that list.
type Column[T any] struct {
	Field
	encoding string // as parquet-go's struct tags spell it; "" is plain

	// put adds the values of rows to a chunk, with their levels.
	put func(c *chunk, rows []T)
	// set puts the values of consecutive rows into them. It copies what it keeps.
	set func(rows []T, values []parquet.Value)
	// load does the same with the next values of a page, where they can be taken by their type; nil where they cannot.
	// Rows may share the texts of a dictionary.
	load func(rows []T, page *typedPage)
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
		load: func(rows []T, page *typedPage) {
			for i, n := range page.page.numbers[:len(rows)] {
				*member(&rows[i]) = page.words[n]
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
		set: func(rows []T, values []parquet.Value) {
			for i := range values {
				set(&rows[i], string(values[i].ByteArray()))
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
		set: func(rows []T, values []parquet.Value) {
			all := make([]byte, 0, 2*size*len(values))
			for i := range values {
				v := values[i].ByteArray()
				if len(v) != size {
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
		set: func(rows []T, values []parquet.Value) {
			for i := range values {
				copy(member(&rows[i])[:], values[i].ByteArray())
			}
		},
	}
}

// Micro is how many units of a file's times make one of a row's: microseconds and seconds.
const Micro = 1_000_000

// Time is seconds in a row, microseconds in a file.
func Time[T any](id int, name, encoding string, member func(*T) *int64) Column[T] {
	c := Int64(id, name, encoding, member)
	c.Type = TypeTime
	c.put = func(c *chunk, rows []T) {
		for i := range rows {
			c.present()
			c.putInt(*member(&rows[i]) * Micro)
		}
	}
	c.set = func(rows []T, values []parquet.Value) {
		for i := range values {
			*member(&rows[i]) = values[i].Int64() / Micro
		}
	}
	load := c.load
	c.load = func(rows []T, page *typedPage) {
		load(rows, page)
		for i := range rows {
			*member(&rows[i]) /= Micro
		}
	}
	return c
}

// Int64 is a number.
func Int64[T any](id int, name, encoding string, member func(*T) *int64) Column[T] {
	c := plain(id, name, TypeInt64, member, (*chunk).putInt, (*parquet.Value).Int64)
	c.encoding = encoding
	c.load = func(rows []T, page *typedPage) {
		if page.page.numbers == nil {
			for i, v := range page.page.int64s[:len(rows)] {
				*member(&rows[i]) = v
			}
			return
		}
		for i, n := range page.page.numbers[:len(rows)] {
			*member(&rows[i]) = page.ints[n]
		}
	}
	return c
}

// plain is a column that always has a value, the same one in a file and in a row.
func plain[T, V any](
	id int, name string, t Type, member func(*T) *V, put func(*chunk, V), get func(*parquet.Value) V,
) Column[T] {
	return Column[T]{
		Field: Field{ID: id, Name: name, Type: t},
		put: func(c *chunk, rows []T) {
			for i := range rows {
				c.present()
				put(c, *member(&rows[i]))
			}
		},
		set: func(rows []T, values []parquet.Value) {
			for i := range values {
				*member(&rows[i]) = get(&values[i])
			}
		},
	}
}

// Int32 is a number.
func Int32[T any](id int, name, encoding string, member func(*T) *int32) Column[T] {
	put := func(c *chunk, v int32) { c.putInt(int64(v)) }
	c := plain(id, name, TypeInt32, member, put, (*parquet.Value).Int32)
	c.encoding = encoding
	return c
}

// Bool is true or false.
func Bool[T any](id int, name string, member func(*T) *bool) Column[T] {
	return plain(id, name, TypeBool, member, (*chunk).putBool, (*parquet.Value).Boolean)
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
		load: func(rows []T, page *typedPage) {
			for i, v := range page.page.floats[:len(rows)] {
				*member(&rows[i]) = v
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

// Named are the columns of these names, in the order in which they are.
func Named[T any](columns []Column[T], names []string) (out []Column[T]) {
	for _, c := range columns {
		if slices.Contains(names, c.Name) {
			out = append(out, c)
		}
	}
	return out
}
