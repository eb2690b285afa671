package autoschedv1_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

const (
	optional   = annotations.FieldBehavior_OPTIONAL
	required   = annotations.FieldBehavior_REQUIRED
	output     = annotations.FieldBehavior_OUTPUT_ONLY
	immutable  = annotations.FieldBehavior_IMMUTABLE
	identifier = annotations.FieldBehavior_IDENTIFIER
)

// TestFieldBehavior: every field that a request can have, and every field of a resource, says whether it is required,
// optional or for answers alone (AIP-203); the name of a resource identifies it.
func TestFieldBehavior(t *testing.T) {
	seen := map[protoreflect.FullName]bool{}
	var check func(m protoreflect.MessageDescriptor)
	check = func(m protoreflect.MessageDescriptor) {
		if seen[m.FullName()] || m.ParentFile().Package() != "autosched.v1" {
			return
		}
		seen[m.FullName()] = true
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			all := proto.GetExtension(f.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
			kinds := 0
			for _, b := range all {
				switch b {
				case optional, required, output, identifier:
					kinds++
				case immutable:
				default:
					t.Errorf("%s has the behaviour %v", f.FullName(), b)
				}
			}
			if kinds != 1 {
				t.Errorf("%s has the behaviours %v: want one of OPTIONAL, REQUIRED, OUTPUT_ONLY and IDENTIFIER",
					f.FullName(), all)
			}
			if slices.Contains(all, identifier) != (isResource(m) && f.Name() == "name") {
				t.Errorf("%s has the behaviours %v: the name of a resource, and no other field, is its IDENTIFIER",
					f.FullName(), all)
			}
			if f.Message() != nil && !f.IsMap() && !slices.Contains(all, output) {
				check(f.Message())
			}
		}
	}
	protoregistry.GlobalFiles.RangeFilesByPackage("autosched.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			for k := range f.Services().Get(i).Methods().Len() {
				check(f.Services().Get(i).Methods().Get(k).Input())
			}
		}
		for i := range f.Messages().Len() {
			if m := f.Messages().Get(i); isResource(m) {
				check(m)
			}
		}
		return true
	})
	if len(seen) < 100 {
		t.Errorf("only %d messages were checked", len(seen))
	}
}

// isResource reports whether a message has a name of its own.
func isResource(m protoreflect.MessageDescriptor) bool {
	f := m.Fields().ByName("name")
	return f != nil && f.Number() == 1 && !strings.HasSuffix(string(m.Name()), "Request") &&
		m.FullName() != "autosched.v1.AuditRecord.Field"
}

var behaviorLine = regexp.MustCompile(`^.* = \d+ \[.*?\(google\.api\.field_behavior\) = (\w+)`)

// TestBehaviorIsDocumented: comments and behaviours say the same.
func TestBehaviorIsDocumented(t *testing.T) {
	files, err := filepath.Glob("*.proto")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		comment, fresh := "", true
		for i, line := range strings.Split(string(text), "\n") {
			line = strings.TrimSpace(line)
			if text, ok := strings.CutPrefix(line, "//"); ok {
				if fresh {
					comment = ""
				}
				comment, fresh = comment+text, false
				continue
			}
			first := !fresh
			fresh = true
			of := behaviorLine.FindStringSubmatch(line)
			if of == nil {
				continue
			}
			if of[1] == "REQUIRED" && !strings.Contains(comment, "Required") {
				t.Errorf("%s:%d: the field is REQUIRED, and its comment does not say so:%s", file, i+1, comment)
			}
			if first && strings.HasPrefix(comment, " Required. ") && of[1] != "REQUIRED" ||
				first && strings.HasPrefix(comment, " Output only.") && of[1] != "OUTPUT_ONLY" {
				t.Errorf("%s:%d: the field is %s, and its comment says:%s", file, i+1, of[1], comment)
			}
		}
	}
}
