package autoschedv1_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "github.com/autosched/autosched/api/autosched/v1"
)

var update = flag.Bool("update", false, "add what is new to testdata/surface.txt")

const surfaceFile = "testdata/surface.txt"

// surface has a line for everything that callers depend on, on the wire and in JSON: methods, fields with their
// numbers and types, values of enums, and numbers and names that had a meaning once and must not get another. It
// covers buf's category WIRE_JSON, which allows to remove a field whose number and name are reserved; this does not.
func surface() (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	enums := func(all protoreflect.EnumDescriptors) {
		for i := range all.Len() {
			e := all.Get(i)
			for k := range e.ReservedRanges().Len() { // an enum's ends are inclusive
				r := e.ReservedRanges().Get(k)
				add("reserved %s %d to %d", e.FullName(), r[0], r[1])
			}
			for k := range e.ReservedNames().Len() {
				add("reserved %s %s", e.FullName(), e.ReservedNames().Get(k))
			}
			for k := range e.Values().Len() {
				v := e.Values().Get(k)
				add("enum %s %d %s", e.FullName(), v.Number(), v.Name())
			}
		}
	}
	var messages func(protoreflect.MessageDescriptors)
	messages = func(all protoreflect.MessageDescriptors) {
		for i := range all.Len() {
			m := all.Get(i)
			add("message %s", m.FullName())
			for k := range m.ReservedRanges().Len() { // a message's ends are exclusive
				r := m.ReservedRanges().Get(k)
				add("reserved %s %d to %d", m.FullName(), r[0], r[1]-1)
			}
			for k := range m.ReservedNames().Len() {
				add("reserved %s %s", m.FullName(), m.ReservedNames().Get(k))
			}
			for k := range m.Fields().Len() {
				f := m.Fields().Get(k)
				add("field %s %d %s %s", m.FullName(), f.Number(), f.Name(), typeOf(f))
			}
			enums(m.Enums())
			messages(m.Messages())
		}
	}
	protoregistry.GlobalFiles.RangeFilesByPackage("autosched.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for k := range s.Methods().Len() {
				m := s.Methods().Get(k)
				add("method %s %s -> %s streams %v %v", m.FullName(), m.Input().FullName(), m.Output().FullName(),
					m.IsStreamingClient(), m.IsStreamingServer())
			}
		}
		enums(f.Enums())
		messages(f.Messages())
		return true
	})
	slices.Sort(lines)
	return lines
}

func typeOf(f protoreflect.FieldDescriptor) string {
	kind := f.Kind().String()
	switch {
	case f.IsMap():
		return "map " + typeOf(f.MapKey()) + " to " + typeOf(f.MapValue())
	case f.Message() != nil:
		kind = string(f.Message().FullName())
	case f.Enum() != nil:
		kind = string(f.Enum().FullName())
	}
	if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() {
		kind += " of " + string(o.Name())
	}
	if f.HasJSONName() && f.JSONName() != jsonName(f.Name()) {
		kind += " json " + f.JSONName()
	}
	return f.Cardinality().String() + " " + kind
}

// jsonName is the default name of a field in JSON.
func jsonName(name protoreflect.Name) string {
	words := strings.Split(string(name), "_")
	for i := range words[1:] {
		if w := words[1+i]; w != "" {
			words[1+i] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}

// TestCompatible: the fields of the file stay. A field may be added, not removed, renumbered or renamed, nor have its
// type changed.
func TestCompatible(t *testing.T) {
	now := surface()
	text, err := os.ReadFile(surfaceFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	before := strings.Split(strings.TrimSpace(string(text)), "\n")
	missing := 0
	for _, line := range before {
		if _, there := slices.BinarySearch(now, line); !there && line != "" {
			missing++
			t.Errorf("callers break without: %s", line)
		}
	}
	switch {
	case missing == 0 && *update:
		if err := os.WriteFile(surfaceFile, []byte(strings.Join(now, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	case missing == 0 && !slices.Equal(now, before):
		t.Logf("%d lines are new: go test ./api/autosched/v1 -update adds them once they are released",
			len(now)-len(before))
	}
}
