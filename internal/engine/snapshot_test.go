package engine

import (
	"bytes"
	"fmt"
	"testing"
)

// A copied partition has the same messages under the same numbers, times and keys, and goes on counting behind them.
func TestCopyAndRestorePartition(t *testing.T) {
	e := open(t, Options{Dir: t.TempDir()})
	ps, err := e.Partitions(t.Context(), PartitionOptions{Count: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer ps.Close()
	data := bytes.Repeat([]byte("x"), 40<<10) // more than one chunk in all
	for i := range 20 {
		if i%5 == 0 {
			_, err = ps.List[1].PublishNew(t.Context(), fmt.Sprint("key", i), append([]byte(fmt.Sprint(i)), data...))
		} else {
			_, err = ps.List[1].Publish(t.Context(), append([]byte(fmt.Sprint(i)), data...))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var copied bytes.Buffer
	made, err := e.CopyPartition(t.Context(), 1, &copied)
	if err != nil {
		t.Fatal(err)
	}

	other := open(t, Options{Dir: t.TempDir()})
	if err := other.RestorePartition(t.Context(), 0, made, bytes.NewReader(copied.Bytes())); err == nil {
		t.Error("the copy of one partition was restored as another")
	}
	var first bytes.Buffer
	madeFirst, err := e.CopyPartition(t.Context(), 0, &first)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.RestorePartition(t.Context(), 0, madeFirst, &first); err != nil {
		t.Fatal(err)
	}
	if err := other.RestorePartition(t.Context(), 1, made, bytes.NewReader(copied.Bytes()[:copied.Len()/2])); err == nil {
		t.Error("half a copy was restored")
	}
	if err := other.RestorePartition(t.Context(), 1, made, bytes.NewReader(copied.Bytes())); err != nil {
		t.Fatal(err)
	}
	again, err := other.Partitions(t.Context(), PartitionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if len(again.List) != 2 || again.Keyed != ps.Keyed || again.ID != ps.ID {
		t.Fatalf("got %d partitions, %d keyed, %s, want 2, %d, %s", len(again.List), again.Keyed, again.ID, ps.Keyed, ps.ID)
	}
	for seq := uint64(1); seq <= 20; seq++ {
		want, err := ps.List[1].Get(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		got, err := again.List[1].Get(t.Context(), seq)
		if err != nil || got.Key != want.Key || !got.Time.Equal(want.Time) || !bytes.Equal(got.Data, want.Data) {
			t.Errorf("message %d: got %q at %v with %d bytes, %v", seq, got.Key, got.Time, len(got.Data), err)
		}
	}
	if seq, err := again.List[1].Publish(t.Context(), data); err != nil || seq != 21 {
		t.Errorf("the next message: got %d, %v, want 21", seq, err)
	}
	if _, err := again.List[1].PublishNew(t.Context(), "key5", data); err == nil {
		t.Error("a key was used twice")
	}
}
