package event

import (
	"reflect"
	"testing"
)

// TestColumns holds that each member of a Row is in one column, and each column of one type.
func TestColumns(t *testing.T) {
	members := map[uintptr]string{} // by address in row
	var row Row
	v := reflect.ValueOf(&row).Elem()
	for i := range v.NumField() {
		members[v.Field(i).Addr().Pointer()] = v.Type().Field(i).Name
	}
	names := map[string]bool{}
	for _, c := range Columns() {
		if names[c.Name] {
			t.Errorf("two columns are named %s", c.Name)
		}
		names[c.Name] = true
		set := 0
		of := reflect.ValueOf(c)
		for i := range of.NumField() {
			f := of.Field(i)
			if f.Kind() != reflect.Func || f.IsNil() {
				continue
			}
			set++
			at := f.Call([]reflect.Value{reflect.ValueOf(&row)})[0].Pointer()
			if members[at] == "" {
				t.Errorf("%s: its member is in another column, too", c.Name)
			}
			delete(members, at)
		}
		if c.Has != nil {
			set--
		}
		if set != 1 || (c.Has != nil) != (c.Number != nil) {
			t.Errorf("%s has %d types, want 1", c.Name, set)
		}
		if text := string(c.AppendText(nil, &Row{})); c.Optional && text != "" {
			t.Errorf("%s is absent: got %q, want nothing", c.Name, text)
		}
	}
	for _, name := range members {
		t.Errorf("the member %s is in no column", name)
	}
}
