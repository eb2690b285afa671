package autoschedv1_test

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/api/annotations"
	_ "google.golang.org/grpc/health/grpc_health_v1" // a file of another package
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

var (
	camel      = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	snake      = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	upper      = regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`)
	fileName   = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*\.proto$`)
	wordBegins = regexp.MustCompile(`([a-z0-9])([A-Z])`)
)

const goPackage = "github.com/autosched/autosched/api/autosched/v1;autoschedv1"

// style checks a file against the rules that the API keeps to: buf's category STANDARD, but that methods return
// resources, as AIP-131 has it, and that values of an enum within a message have no prefix; and some of AIP.
type style struct {
	faults []string
	inputs map[protoreflect.FullName]bool // the requests of methods
}

func (s *style) want(ok bool, of protoreflect.Descriptor, rule string, args ...any) {
	if !ok {
		s.faults = append(s.faults, fmt.Sprintf("%s: ", of.FullName())+fmt.Sprintf(rule, args...))
	}
}

func (s *style) file(f protoreflect.FileDescriptor) {
	s.want(f.Package() == "autosched.v1" && strings.HasPrefix(f.Path(), "autosched/v1/"), f,
		"%s is not in package and folder autosched.v1", f.Path())
	s.want(f.Syntax() == protoreflect.Proto3, f, "is not proto3")
	s.want(fileName.MatchString(path.Base(f.Path())), f, "a file is called as in what_if.proto")
	options := f.Options().(*descriptorpb.FileOptions)
	s.want(options.GetGoPackage() == goPackage, f, "is not in the Go package %s", goPackage)
	used := map[string]bool{}
	uses(f, used)
	for i := range f.Imports().Len() {
		one := f.Imports().Get(i)
		s.want(!one.IsPublic, f, "imports %s for those that import it", one.Path())
		s.want(used[one.Path()], f, "imports %s and uses nothing of it", one.Path())
		s.want(one.Package() == f.Package() || strings.HasPrefix(string(one.Package()), "google."), f,
			"imports %s, which is of neither this package nor Google", one.Path())
	}
	for i := range f.Services().Len() {
		s.service(f.Services().Get(i))
	}
	for i := range f.Messages().Len() {
		s.message(f.Messages().Get(i))
	}
	for i := range f.Enums().Len() {
		s.enum(f.Enums().Get(i))
	}
}

// uses collects the files whose messages and enums a file names.
func uses(f protoreflect.FileDescriptor, files map[string]bool) {
	var of func(protoreflect.MessageDescriptors)
	of = func(all protoreflect.MessageDescriptors) {
		for i := range all.Len() {
			for k := range all.Get(i).Fields().Len() {
				field := all.Get(i).Fields().Get(k)
				if field.Message() != nil {
					files[field.Message().ParentFile().Path()] = true
				} else if field.Enum() != nil {
					files[field.Enum().ParentFile().Path()] = true
				}
				if proto.HasExtension(field.Options(), annotations.E_FieldBehavior) {
					files[annotations.File_google_api_field_behavior_proto.Path()] = true
				}
			}
			of(all.Get(i).Messages())
		}
	}
	of(f.Messages())
	for i := range f.Services().Len() {
		for k := range f.Services().Get(i).Methods().Len() {
			m := f.Services().Get(i).Methods().Get(k)
			files[m.Input().ParentFile().Path()], files[m.Output().ParentFile().Path()] = true, true
			if proto.HasExtension(m.Options(), annotations.E_Http) {
				files[annotations.File_google_api_annotations_proto.Path()] = true
			}
		}
	}
}

func (s *style) service(d protoreflect.ServiceDescriptor) {
	name := string(d.Name())
	s.want(camel.MatchString(name) && (strings.HasSuffix(name, "Service") || name == "SchedulerAgent"), d,
		"a service is called ...Service")
	for i := range d.Methods().Len() {
		m := d.Methods().Get(i)
		in, out := m.Input(), m.Output()
		s.want(camel.MatchString(string(m.Name())), m, "a method is called as in GetScheduler")
		s.want(in.Name() == m.Name()+"Request", m, "its request is %s, not %sRequest", in.Name(), m.Name())
		s.want(!s.inputs[in.FullName()], m, "%s is the request of another method, too", in.Name())
		s.inputs[in.FullName()] = true
		resource := !strings.HasSuffix(string(out.Name()), "Response")
		s.want(out.Name() == m.Name()+"Response" || resource && !strings.HasSuffix(string(out.Name()), "Request"), m,
			"it returns %s: want %sResponse or a resource", out.Name(), m.Name())
		if strings.HasPrefix(string(m.Name()), "List") {
			s.list(m)
		}
	}
}

// list: AIP-132 and AIP-158, for lists that have pages.
func (s *style) list(m protoreflect.MethodDescriptor) {
	in, out := m.Input().Fields(), m.Output().Fields()
	first := out.ByNumber(1)
	s.want(first != nil && first.IsList() && first.Message() != nil, m, "field 1 of its response is not what is listed")
	size, token, next := in.ByName("page_size"), in.ByName("page_token"), out.ByName("next_page_token")
	if size == nil && token == nil && next == nil {
		return
	}
	s.want(size != nil && size.Kind() == protoreflect.Int32Kind && token != nil && next != nil &&
		token.Kind() == protoreflect.StringKind && next.Kind() == protoreflect.StringKind, m,
		"a list with pages has int32 page_size, string page_token and string next_page_token")
}

func (s *style) message(d protoreflect.MessageDescriptor) {
	if d.IsMapEntry() {
		return
	}
	s.want(camel.MatchString(string(d.Name())), d, "a message is called as in SchedulerSpec")
	for i := range d.Fields().Len() {
		s.field(d.Fields().Get(i))
	}
	for i := range d.Oneofs().Len() {
		if o := d.Oneofs().Get(i); !o.IsSynthetic() {
			s.want(snake.MatchString(string(o.Name())), o, "a oneof is called as in parameter_value")
		}
	}
	for i := range d.Messages().Len() {
		s.message(d.Messages().Get(i))
	}
	for i := range d.Enums().Len() {
		s.enum(d.Enums().Get(i))
	}
}

func (s *style) field(f protoreflect.FieldDescriptor) {
	name := string(f.Name())
	s.want(snake.MatchString(name), f, "a field is called as in display_name")
	s.want(f.Kind() != protoreflect.BoolKind || !strings.HasPrefix(name, "is_"), f, "a truth value has no is_")
	s.want(f.Cardinality() != protoreflect.Required && f.Kind() != protoreflect.GroupKind, f, "is required, or a group")
	if f.Message() != nil && f.Message().FullName() == "google.protobuf.Timestamp" {
		s.want(strings.HasSuffix(name, "_time") || name == "time", f, "an instant is called ..._time")
	}
	switch name {
	case "filter", "order_by", "etag", "request_id", "page_token", "next_page_token", "name", "parent", "uid":
		s.want(f.Kind() == protoreflect.StringKind && !f.IsList(), f, "is not a string")
	case "validate_only":
		s.want(f.Kind() == protoreflect.BoolKind, f, "is not a bool")
	case "labels", "annotations":
		s.want(f.IsMap(), f, "is not a map")
	}
}

// enum: the zero value says that nothing is set; values of an enum outside of a message begin with its name.
func (s *style) enum(d protoreflect.EnumDescriptor) {
	name := strings.ToUpper(wordBegins.ReplaceAllString(string(d.Name()), "${1}_${2}"))
	_, nested := d.Parent().(protoreflect.MessageDescriptor)
	s.want(camel.MatchString(string(d.Name())), d, "an enum is called as in EndStatus")
	zero := d.Values().ByNumber(0)
	s.want(zero != nil && string(zero.Name()) == name+"_UNSPECIFIED", d, "its value 0 is not %s_UNSPECIFIED", name)
	seen := map[protoreflect.EnumNumber]bool{}
	for i := range d.Values().Len() {
		v := d.Values().Get(i)
		s.want(upper.MatchString(string(v.Name())), v, "a value is called as in IN_SYNC")
		s.want(nested || strings.HasPrefix(string(v.Name()), name+"_"), v, "a value does not begin with %s_", name)
		s.want(!seen[v.Number()], v, "its number has another name")
		seen[v.Number()] = true
	}
}

// TestStyle: the protos keep to the rules of names, requests, responses, lists and enums.
func TestStyle(t *testing.T) {
	s := style{inputs: map[protoreflect.FullName]bool{}}
	files := 0
	protoregistry.GlobalFiles.RangeFilesByPackage("autosched.v1", func(f protoreflect.FileDescriptor) bool {
		files++
		s.file(f)
		return true
	})
	slices.Sort(s.faults)
	for _, fault := range s.faults {
		t.Error(fault)
	}
	if files < 10 {
		t.Errorf("only %d files were checked", files)
	}
}

// TestStyleFinds: each rule finds its violations.
func TestStyleFinds(t *testing.T) {
	for text, want := range map[string]string{
		`message_type { name: "thing" }`:                                                        "a message is called",
		`message_type { name: "A" field { name: "aB" number: 1 type: TYPE_STRING } }`:           "a field is called",
		`message_type { name: "A" field { name: "is_on" number: 1 type: TYPE_BOOL } }`:          "has no is_",
		`message_type { name: "A" field { name: "etag" number: 1 type: TYPE_INT64 } }`:          "not a string",
		`message_type { name: "A" field { name: "labels" number: 1 type: TYPE_STRING } }`:       "not a map",
		`message_type { name: "A" field { name: "validate_only" number: 1 type: TYPE_INT32 } }`: "not a bool",
		`message_type { name: "A" oneof_decl { name: "B" }
			field { name: "b" number: 1 type: TYPE_BOOL oneof_index: 0 } }`: "a oneof",
		`enum_type { name: "EndState" value { name: "END_STATE_NONE" number: 0 } }`:                          "not END_STATE_UNSPECIFIED",
		`enum_type { name: "E" value { name: "E_UNSPECIFIED" number: 0 } value { name: "UP" number: 1 } }`:   "does not begin",
		`enum_type { name: "E" value { name: "E_UNSPECIFIED" number: 0 } value { name: "E_up" number: 1 } }`: "a value is called",
		`message_type { name: "A" } service { name: "Things" }`:                                              "a service is called",
		`message_type { name: "A" } service { name: "AService"
			method { name: "Get" input_type: "A" output_type: "A" } }`: "not GetRequest",
		`message_type { name: "GetRequest" } message_type { name: "AResponse" }
			service { name: "AService"
			method { name: "Get" input_type: "GetRequest" output_type: "AResponse" } }`: "want GetResponse",
		`message_type { name: "GetRequest" } service { name: "AService"
			method { name: "Get" input_type: "GetRequest" output_type: "google.protobuf.Timestamp" } }
			service { name: "BService"
			method { name: "Get" input_type: "GetRequest" output_type: "google.protobuf.Timestamp" } }`: "another method",
		`message_type { name: "ListRequest" field { name: "page_size" number: 1 type: TYPE_INT32 } }
			message_type { name: "ListResponse" } service { name: "AService"
			method { name: "List" input_type: "ListRequest" output_type: "ListResponse" } }`: "page_token",
		`message_type { name: "A" field { name: "made" number: 1 type: TYPE_MESSAGE
			type_name: ".google.protobuf.Timestamp" } }`: "an instant",
		`package: "other"`:                          "not in package",
		`message_type { name: "A" }`:                "uses nothing of it",
		`public_dependency: 0`:                      "for those that import it",
		`options { go_package: "other" }`:           "not in the Go package",
		`dependency: "grpc/health/v1/health.proto"`: "neither this package nor Google",
		`name: "autosched/v1/Upper.proto"`:          "a file is called",
	} {
		base := `syntax: "proto3" dependency: "google/protobuf/timestamp.proto" `
		if !strings.HasPrefix(text, "name:") {
			base += `name: "autosched/v1/x.proto" `
		}
		if !strings.Contains(text, "package:") {
			base += `package: "autosched.v1" `
		}
		text = regexp.MustCompile(`_type: "([A-Z])`).ReplaceAllString(text, `_type: ".autosched.v1.$1`)
		text = strings.ReplaceAll(text, `"google.`, `".google.`)
		var p descriptorpb.FileDescriptorProto
		if err := prototext.Unmarshal([]byte(base+text), &p); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		f, err := protodesc.NewFile(&p, protoregistry.GlobalFiles)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		s := style{inputs: map[protoreflect.FullName]bool{}}
		if s.file(f); !strings.Contains(strings.Join(s.faults, "\n"), want) {
			t.Errorf("%s: %q does not say %q", text, s.faults, want)
		}
	}
}
