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

	// get appends the values of rows, with their levels. A value may point into the row, and into s.
	get func(s *vector, rows []T)
	// set puts the values of consecutive rows into them. It copies what it keeps.
	set func(rows []T, values []parquet.Value)
}

// kind is a type of a column, as the three that have to agree on it name it.
type kind struct {
	iceberg apache.Type
	golang  reflect.Type // from which parquet-go derives its own
	logical string       // parquet-go's name for what the bytes mean
}

var (
	uuidKind  = kind{apache.PrimitiveTypes.UUID, reflect.TypeFor[[16]byte](), "uuid"}
	textKind  = kind{apache.PrimitiveTypes.String, reflect.TypeFor[string](), ""}
	hashKind  = kind{apache.FixedTypeOf(32), reflect.TypeFor[[32]byte](), ""}
	timeKind  = kind{apache.PrimitiveTypes.TimestampTz, reflect.TypeFor[int64](), "timestamp(microsecond:utc)"}
	int32Kind = kind{apache.PrimitiveTypes.Int32, reflect.TypeFor[int32](), ""}
	int64Kind = kind{apache.PrimitiveTypes.Int64, reflect.TypeFor[int64](), ""}
	floatKind = kind{apache.PrimitiveTypes.Float64, reflect.TypeFor[float64](), ""}
	boolKind  = kind{apache.PrimitiveTypes.Bool, reflect.TypeFor[bool](), ""}
	listKind  = kind{nil, reflect.TypeFor[[]int32](), "list"}
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

// vector is values on their way into one column of a file, each with its definition level: 0 is null. The level is
// always given and never inferred, because parquet-go infers it wrongly (docs/decisions/0040).
type vector struct {
	values  []parquet.Value
	present int    // the definition level of a value that is there: 1 in an optional column, else 0
	bytes   []byte // memory for values that are not members as they are
}

func (s *vector) put(v parquet.Value) {
	v.SetDefinitionLevel(s.present)
	s.values = append(s.values, v)
}

func (s *vector) null() { s.values = append(s.values, parquet.Value{}) }

func (s *vector) text(v string) {
	if v == "" && s.present > 0 {
		s.null()
		return
	}
	s.put(parquet.ByteArrayValue(unsafe.Slice(unsafe.StringData(v), len(v))))
}

// fixed is room for n bytes that stay as they are until the vector is cleared.
func (s *vector) fixed(n int) []byte {
	if cap(s.bytes)-len(s.bytes) < n {
		s.bytes = make([]byte, 0, max(n*writeRows, 2*cap(s.bytes))) // the old ones stay with the values that need them
	}
	s.bytes = s.bytes[:len(s.bytes)+n]
	return s.bytes[len(s.bytes)-n:]
}

// begin makes the vector ready for a column.
func (s *vector) begin(optional bool) {
	s.values, s.bytes, s.present = s.values[:0], s.bytes[:0], 0
	if optional {
		s.present = 1
	}
}

// Text is a text; an empty one is null in an optional column.
func Text[T any](id int, name, encoding string, member func(*T) *string) Column[T] {
	return Column[T]{
		id: id, name: name, kind: textKind, encoding: encoding,
		get: func(s *vector, rows []T) {
			for i := range rows {
				s.text(*member(&rows[i]))
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
		get: func(s *vector, rows []T) {
			for i := range rows {
				s.text(get(&rows[i]))
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
		get: func(s *vector, rows []T) {
			for i := range rows {
				text := *member(&rows[i])
				if len(text) != 2*size {
					s.null()
					continue
				}
				b := s.fixed(size)
				if !unhex(b, text) {
					s.null()
					continue
				}
				s.put(parquet.FixedLenByteArrayValue(b))
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

func unhex(dst []byte, text string) bool {
	n, err := hex.Decode(dst, unsafe.Slice(unsafe.StringData(text), len(text)))
	return err == nil && n == len(dst)
}

// UUID is 16 bytes.
func UUID[T any](id int, name, encoding string, member func(*T) *[16]byte) Column[T] {
	return Column[T]{
		id: id, name: name, kind: uuidKind, encoding: encoding,
		get: func(s *vector, rows []T) {
			for i := range rows {
				s.put(parquet.FixedLenByteArrayValue(member(&rows[i])[:]))
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
	c.get = func(s *vector, rows []T) {
		for i := range rows {
			s.put(parquet.Int64Value(*member(&rows[i]) * micro))
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
		get: func(s *vector, rows []T) {
			for i := range rows {
				s.put(parquet.Int64Value(*member(&rows[i])))
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
		get: func(s *vector, rows []T) {
			for i := range rows {
				s.put(parquet.Int32Value(*member(&rows[i])))
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
		get: func(s *vector, rows []T) {
			for i := range rows {
				s.put(parquet.BooleanValue(*member(&rows[i])))
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
		get: func(s *vector, rows []T) {
			for i := range rows {
				if has != nil && !*has(&rows[i]) {
					s.null()
					continue
				}
				s.put(parquet.DoubleValue(*member(&rows[i])))
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
		get: func(s *vector, rows []T) {
			for i := range rows {
				list := *member(&rows[i])
				if len(list) == 0 {
					s.null()
				}
				for k, n := range list {
					s.values = append(s.values, parquet.Int32Value(n).Level(min(k, 1), 2, 0))
				}
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
