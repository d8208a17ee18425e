package parquetfile

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"

	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// leafType says how the values of a column lie in a file.
type leafType struct {
	path     []string
	physical format.Type
	width    int // of a value in bytes: 1 for a flag; 0 for values of any length
	text     bool
	encoding format.Encoding // of pages without a dictionary: Plain or DeltaBinaryPacked
	dict     bool            // values get a dictionary while it is small
	raw      bool            // pages are not compressed
	maxDef   byte            // 1 in an optional column, 2 in a list
	maxRep   byte            // 1 in a list
}

// chunk collects one column of a row group: values into pages, pages into bytes as they lie in the file. The level of
// every value is given, never inferred. One goroutine uses it.
type chunk struct {
	leafType
	pageBytes int

	// The page that is being filled. Values are in numbers if there is a dictionary, in integers if they will be
	// delta-encoded, else in plain.
	rows     int
	reps     []byte
	defs     []byte
	numbers  []int32
	integers []int64
	plain    []byte

	useDict bool // values of this page go into the dictionary
	values  *dictionary
	own     dictionary // of this chunk; see appendRows for another's
	used    []bool     // which values of the dictionary are in the page; memory for bounds
	scratch []int32    // memory for places of values, and for integers of 32 bits

	// The pages that are done.
	pages     []byte
	meta      format.ColumnMetaData
	locations []format.PageLocation // offsets from the first page on
	index     format.ColumnIndex
	firstRow  int64
	groups    int // how many row groups were begun
	dictPages int // how many have numbers of the dictionary

	encoded, page, packed []byte // memory for a page
}

// begin makes the chunk ready for a row group.
func (c *chunk) begin() {
	c.groups++
	c.clearPage()
	c.useDict = c.dict
	if c.values = &c.own; c.dict {
		c.own.width = c.width
		c.own.reset()
	}
	c.pages, c.locations, c.firstRow, c.dictPages = c.pages[:0], nil, 0, 0
	c.index = format.ColumnIndex{}
	codec := format.Uncompressed
	if !c.raw {
		codec = format.Zstd
	}
	c.meta = format.ColumnMetaData{Type: c.physical, PathInSchema: c.path, Codec: codec}
}

func (c *chunk) clearPage() {
	c.rows = 0
	c.reps, c.defs, c.numbers = c.reps[:0], c.defs[:0], c.numbers[:0]
	c.integers, c.plain = c.integers[:0], c.plain[:0]
}

// null adds an absent value.
func (c *chunk) null() { c.defs = append(c.defs, 0) }

// present notes the level of a value that follows.
func (c *chunk) present() {
	if c.maxDef > 0 {
		c.defs = append(c.defs, 1)
	}
}

// putText adds a text; an empty one is null in an optional column.
func (c *chunk) putText(v string) {
	if c.maxDef > 0 && v == "" {
		c.null()
		return
	}
	c.present()
	c.putBytes(v)
}

// putBytes adds the value of a column of bytes, without its level.
func (c *chunk) putBytes(v string) {
	if c.useDict {
		c.numbers = append(c.numbers, c.values.number(v))
		return
	}
	if c.width == 0 {
		c.plain = binary.LittleEndian.AppendUint32(c.plain, uint32(len(v)))
	}
	c.plain = append(c.plain, v...)
}

// putHash adds 64 hex digits as 32 bytes; whatever else is null.
func (c *chunk) putHash(text string) {
	at := len(c.plain)
	if c.plain = append(c.plain, zeros[:c.width]...); len(text) == 2*c.width && unhex(c.plain[at:], text) {
		c.present()
		return
	}
	c.plain = c.plain[:at]
	c.null()
}

var zeros [32]byte

// digits are the values of hex digits; what is none is above 15.
var digits = func() (out [256]byte) {
	for i := range out {
		out[i] = 0x80
	}
	for i := range byte(16) {
		out["0123456789abcdef"[i]], out["0123456789ABCDEF"[i]] = i, i
	}
	return out
}()

// unhex decodes text, twice as long as dst. It is three times as fast as encoding/hex, which has to say what is wrong.
func unhex(dst []byte, text string) bool {
	bad := byte(0)
	for i := range dst {
		high, low := digits[text[2*i]], digits[text[2*i+1]]
		dst[i] = high<<4 | low
		bad |= high | low
	}
	return bad < 0x80
}

// putInt adds an integer of the column's width, without its level.
func (c *chunk) putInt(v int64) {
	if c.encoding == format.DeltaBinaryPacked && !c.useDict {
		c.integers = append(c.integers, v)
		return
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(v))
	c.putBytes(text(b[:c.width]))
}

func (c *chunk) putFloat(v float64) {
	c.plain = binary.LittleEndian.AppendUint64(c.plain, math.Float64bits(v))
}

func (c *chunk) putBool(v bool) {
	b := byte(0)
	if v {
		b = 1
	}
	c.plain = append(c.plain, b)
}

// putList adds the elements of one row. Levels: 0 is a null list, 2 an element, which repeats at 1 after the first.
func (c *chunk) putList(list []int32) {
	if len(list) == 0 {
		c.reps, c.defs = append(c.reps, 0), append(c.defs, 0)
	}
	for i, v := range list {
		c.reps, c.defs = append(c.reps, byte(min(i, 1))), append(c.defs, 2)
		c.putInt(int64(v))
	}
}

// size is about how many bytes the page has before it is encoded.
func (c *chunk) size() int {
	return len(c.reps) + len(c.defs) + 4*len(c.numbers) + c.width*len(c.integers) + len(c.plain)
}

// end says that n rows were added. It ends the dictionary when that has lost its sense, and the page when it is full.
func (c *chunk) end(n int) error {
	c.rows += n
	if c.useDict && len(c.values.data) > dictionaryBytes {
		if err := c.leaveDictionary(); err != nil {
			return err
		}
	}
	if c.size() < c.pageBytes {
		return nil
	}
	return c.endPage()
}

// leaveDictionary goes on in plain. Where no page was made with the dictionary, there was none.
func (c *chunk) leaveDictionary() error {
	if c.dictPages == 0 {
		c.spellOut()
		return nil
	}
	err := c.endPage()
	c.useDict = false
	return err
}

// spellOut puts the values of the page in the place of their numbers.
func (c *chunk) spellOut() {
	c.useDict = false
	for _, n := range c.numbers {
		v := c.values.value(n)
		if c.encoding == format.DeltaBinaryPacked {
			c.integers = append(c.integers, c.integer(v))
		} else {
			c.putBytes(text(v))
		}
	}
	c.numbers = c.numbers[:0]
}

var (
	numberEncoding rle.DictionaryEncoding
	deltaEncoding  delta.BinaryPackedEncoding
	levelEncodings = [...]rle.Encoding{{}, {BitWidth: 1}, {BitWidth: 2}}
)

// encode is the values of the page, encoded.
func (c *chunk) encode() (encoding format.Encoding, err error) {
	switch {
	case c.useDict:
		c.encoded, err = numberEncoding.EncodeInt32(c.encoded, c.numbers)
		return format.RLEDictionary, err
	case c.encoding == format.DeltaBinaryPacked && c.width == 4:
		c.scratch = c.scratch[:0]
		for _, v := range c.integers {
			c.scratch = append(c.scratch, int32(v))
		}
		c.encoded, err = deltaEncoding.EncodeInt32(c.encoded, c.scratch)
	case c.encoding == format.DeltaBinaryPacked:
		c.encoded, err = deltaEncoding.EncodeInt64(c.encoded, c.integers)
	case c.physical == format.Boolean:
		c.encoded = append(c.encoded[:0], make([]byte, (len(c.plain)+7)/8)...)
		for i, b := range c.plain {
			c.encoded[i/8] |= b << (i % 8)
		}
	default:
		c.encoded = append(c.encoded[:0], c.plain...)
	}
	return c.encoding, err
}

// encodeLevels adds levels to the page, behind their length.
func (c *chunk) encodeLevels(levels []byte, most byte) (err error) {
	if most == 0 {
		return nil
	}
	if c.packed, err = levelEncodings[most].EncodeLevels(c.packed, levels); err != nil {
		return err
	}
	c.page = binary.LittleEndian.AppendUint32(c.page, uint32(len(c.packed)))
	c.page = append(c.page, c.packed...)
	return nil
}

// count is how many values the page has, absent ones counted, and how many of them are absent.
func (c *chunk) count() (all, nulls int) {
	if c.maxDef == 0 {
		return c.rows, 0
	}
	return len(c.defs), bytes.Count(c.defs, []byte{0})
}

// endPage encodes the page and adds it to those that are done.
func (c *chunk) endPage() error {
	if c.rows == 0 {
		return nil
	}
	all, nulls := c.count()
	c.addBounds(all, nulls)
	encoding, err := c.encode()
	if err != nil {
		return err
	}
	c.page = c.page[:0]
	if err := c.encodeLevels(c.reps, c.maxRep); err != nil {
		return err
	}
	if err := c.encodeLevels(c.defs, c.maxDef); err != nil {
		return err
	}
	c.page = append(c.page, c.encoded...)
	header := format.PageHeader{Type: format.DataPage, DataPageHeader: thrift.New(format.DataPageHeader{
		NumValues: int32(all), Encoding: encoding, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE,
	})}
	at := len(c.pages)
	if c.pages, err = c.appendPage(c.pages, &header, c.page); err != nil {
		return err
	}
	c.locations = append(c.locations, format.PageLocation{
		Offset: int64(at), CompressedPageSize: int32(len(c.pages) - at), FirstRowIndex: c.firstRow,
	})
	c.firstRow += int64(c.rows)
	c.meta.NumValues += int64(all)
	if c.useDict {
		c.dictPages++
	}
	c.clearPage()
	return nil
}

// appendPage compresses a page and adds it to dst, behind its header.
func (c *chunk) appendPage(dst []byte, header *format.PageHeader, page []byte) ([]byte, error) {
	body := page
	if !c.raw {
		c.packed = encoder().EncodeAll(page, c.packed[:0])
		body = c.packed
	}
	header.UncompressedPageSize, header.CompressedPageSize = int32(len(page)), int32(len(body))
	header.CRC = int32(crc32.ChecksumIEEE(body))
	head, err := thrift.Marshal(new(thrift.CompactProtocol), header)
	if err != nil {
		return dst, err
	}
	c.meta.TotalUncompressedSize += int64(len(head) + len(page))
	c.meta.TotalCompressedSize += int64(len(head) + len(body))
	kind := format.PageEncodingStats{PageType: header.Type, Encoding: header.DataPageHeader.V.Encoding, Count: 1}
	if header.Type == format.DictionaryPage {
		kind.Encoding = format.Plain
	}
	c.countPage(kind)
	return append(append(dst, head...), body...), nil
}

func (c *chunk) countPage(kind format.PageEncodingStats) {
	for i := range c.meta.EncodingStats {
		if s := &c.meta.EncodingStats[i]; s.PageType == kind.PageType && s.Encoding == kind.Encoding {
			s.Count++
			return
		}
	}
	c.meta.EncodingStats = append(c.meta.EncodingStats, kind)
}

// finish ends the column. It returns the dictionary's page, if there is one, and those with the values; both are valid
// until the next begin. Offsets in the description count from the start of the dictionary.
func (c *chunk) finish() (dictionary, pages []byte, err error) {
	if err := c.endPage(); err != nil {
		return nil, nil, err
	}
	if c.dictPages > 0 {
		header := format.PageHeader{Type: format.DictionaryPage, DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{
			NumValues: int32(c.values.len()), Encoding: format.Plain,
		})}
		if dictionary, err = c.appendPage(c.page[:0], &header, c.values.data); err != nil {
			return nil, nil, err
		}
		c.page = dictionary
	}
	if c.maxDef > 0 {
		c.meta.Encoding = append(c.meta.Encoding, format.RLE)
	}
	for _, s := range c.meta.EncodingStats {
		if !slices.Contains(c.meta.Encoding, s.Encoding) {
			c.meta.Encoding = append(c.meta.Encoding, s.Encoding)
		}
	}
	return dictionary, c.pages, nil
}
