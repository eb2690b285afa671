// Command reference writes the pages of docs/reference and the OpenAPI document: the API from the descriptors of its
// protos, and the reasons of errors. api/generate.sh runs it.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

// run takes a file with a FileDescriptorSet, source information included, the folder of the pages, the file of the
// OpenAPI document and that of descriptors without annotations.
func run(args []string) error {
	if len(args) != 4 {
		return errors.New("usage: reference DESCRIPTORS FOLDER OPENAPI PLAIN")
	}
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(data, &set); err != nil {
		return err
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		return err
	}
	p := page{own: map[protoreflect.FullName]bool{}}
	files.RangeFilesByPackage("autosched.v1", func(f protoreflect.FileDescriptor) bool {
		p.files = append(p.files, f)
		return true
	})
	slices.SortFunc(p.files, func(a, b protoreflect.FileDescriptor) int { return cmp.Compare(a.Path(), b.Path()) })
	rest, err := openAPI(p.files)
	if err != nil {
		return err
	}
	if err := os.WriteFile(args[2], append(rest, '\n'), 0o644); err != nil {
		return err
	}
	if err := writePlain(args[3], &set); err != nil {
		return err
	}
	for name, text := range map[string]string{"api.md": p.write(), "errors.md": errorsPage()} {
		if err := os.WriteFile(filepath.Join(args[1], name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writePlain writes descriptors without the annotations of google.api, whose code a client would need, too. It changes
// the set.
func writePlain(path string, set *descriptorpb.FileDescriptorSet) error {
	var messages func(all []*descriptorpb.DescriptorProto)
	messages = func(all []*descriptorpb.DescriptorProto) {
		for _, m := range all {
			for _, f := range m.GetField() {
				f.Options = nil
			}
			messages(m.GetNestedType())
		}
	}
	for _, f := range set.GetFile() {
		f.SourceCodeInfo = nil
		if f.GetPackage() != "autosched.v1" {
			continue
		}
		f.Dependency = slices.DeleteFunc(f.Dependency, func(d string) bool {
			return strings.HasPrefix(d, "google/api/")
		})
		for _, s := range f.GetService() {
			for _, m := range s.GetMethod() {
				m.Options = nil
			}
		}
		messages(f.GetMessageType())
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(set)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// page writes the reference of the API.
type page struct {
	out   strings.Builder
	files []protoreflect.FileDescriptor
	// own has the messages that stand below the one method that takes or returns them.
	own map[protoreflect.FullName]bool
}

func (p *page) write() string {
	fmt.Fprint(&p.out, `# The API

Generated from [api/autosched/v1](../../api/autosched/v1) by `+"`make proto`"+`: edit the comments of the protos.
[service.md](../service.md) is the guide; [errors.md](errors.md) lists the reasons of errors. The package is
`+"`autosched.v1`"+`. A field is optional unless it is marked.

`)
	var messages []protoreflect.MessageDescriptor
	var enums []protoreflect.EnumDescriptor
	p.single()
	for _, f := range p.files {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			fmt.Fprintf(&p.out, "- [%s](#%s): %s\n", s.Name(), anchor(string(s.Name())), methods(s))
		}
		messages = append(messages, all(f.Messages())...)
		for i := range f.Enums().Len() {
			enums = append(enums, f.Enums().Get(i))
		}
	}
	for _, f := range p.files {
		for i := range f.Services().Len() {
			p.service(f.Services().Get(i))
		}
	}
	fmt.Fprint(&p.out, "\n## Messages\n")
	slices.SortFunc(messages, byName)
	for _, m := range messages {
		if !p.own[m.FullName()] && !m.IsMapEntry() {
			fmt.Fprintf(&p.out, "\n### %s\n%s", local(m), paragraphs(m))
			p.fields(m)
		}
		for i := range m.Enums().Len() {
			enums = append(enums, m.Enums().Get(i))
		}
	}
	fmt.Fprint(&p.out, "\n## Enums\n")
	slices.SortFunc(enums, byName)
	for _, e := range enums {
		p.enum(e)
	}
	return p.out.String()
}

// single fills own: requests and responses of exactly one method that nothing else refers to.
func (p *page) single() {
	uses := map[protoreflect.FullName]int{}
	for _, f := range p.files {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for k := range s.Methods().Len() {
				m := s.Methods().Get(k)
				uses[m.Input().FullName()]++
				uses[m.Output().FullName()]++
			}
		}
		for _, m := range all(f.Messages()) {
			for i := range m.Fields().Len() {
				if t := m.Fields().Get(i).Message(); t != nil {
					uses[t.FullName()] += 2
				}
			}
		}
	}
	for name, n := range uses {
		if n == 1 && (strings.HasSuffix(string(name), "Request") || strings.HasSuffix(string(name), "Response")) {
			p.own[name] = true
		}
	}
}

func (p *page) service(s protoreflect.ServiceDescriptor) {
	fmt.Fprintf(&p.out, "\n## %s\n%s", s.Name(), paragraphs(s))
	for i := range s.Methods().Len() {
		m := s.Methods().Get(i)
		fmt.Fprintf(&p.out, "\n### %s\n%s", m.Name(), paragraphs(m))
		for _, side := range []struct {
			name   string
			of     protoreflect.MessageDescriptor
			stream bool
		}{{"Request", m.Input(), m.IsStreamingClient()}, {"Response", m.Output(), m.IsStreamingServer()}} {
			stream := ""
			if side.stream {
				stream = "a stream of "
			}
			switch {
			case !p.own[side.of.FullName()]:
				fmt.Fprintf(&p.out, "\n%s: %s%s\n", side.name, stream, link(side.of))
			case side.of.Fields().Len() == 0:
				fmt.Fprintf(&p.out, "\n%s: %s`%s`, without fields\n", side.name, stream, side.of.Name())
			default:
				fmt.Fprintf(&p.out, "\n%s: %s`%s`\n", side.name, stream, side.of.Name())
				p.fields(side.of)
			}
		}
	}
}

// fields writes a table. Fields that follow each other share a comment, as in the source.
func (p *page) fields(m protoreflect.MessageDescriptor) {
	if m.Fields().Len() == 0 {
		return
	}
	fmt.Fprint(&p.out, "\n| field | type | meaning |\n| --- | --- | --- |\n")
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		text := comment(f)
		if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() {
			if o.Fields().Get(0) == f {
				text = strings.TrimSpace(comment(o) + " " + text)
			}
			text = strings.TrimSpace(fmt.Sprintf("One of `%s`. %s", o.Name(), text))
		}
		for _, b := range behaviours(f) {
			label := map[annotations.FieldBehavior]string{
				annotations.FieldBehavior_REQUIRED: "Required.", annotations.FieldBehavior_OUTPUT_ONLY: "Output only.",
				annotations.FieldBehavior_IMMUTABLE:  "Immutable.",
				annotations.FieldBehavior_IDENTIFIER: "Identifier."}[b]
			if !strings.Contains(text, label) {
				text = strings.TrimSpace(label + " " + text)
			}
		}
		fmt.Fprintf(&p.out, "| `%s` | %s | %s |\n", f.Name(), typeOf(f), text)
	}
}

func (p *page) enum(e protoreflect.EnumDescriptor) {
	fmt.Fprintf(&p.out, "\n### %s\n%s\n| value | meaning |\n| --- | --- |\n", local(e), paragraphs(e))
	for i := range e.Values().Len() {
		if v := e.Values().Get(i); v.Number() != 0 || comment(v) != "" {
			fmt.Fprintf(&p.out, "| `%s` | %s |\n", v.Name(), comment(v))
		}
	}
}

func byName[D protoreflect.Descriptor](a, b D) int { return cmp.Compare(a.FullName(), b.FullName()) }

// all returns messages with the messages nested in them.
func all(of protoreflect.MessageDescriptors) []protoreflect.MessageDescriptor {
	var out []protoreflect.MessageDescriptor
	for i := range of.Len() {
		out = append(append(out, of.Get(i)), all(of.Get(i).Messages())...)
	}
	return out
}

func methods(s protoreflect.ServiceDescriptor) string {
	var out []string
	for i := range s.Methods().Len() {
		name := string(s.Methods().Get(i).Name())
		out = append(out, fmt.Sprintf("[%s](#%s)", name, anchor(name)))
	}
	return strings.Join(out, ", ")
}

func behaviours(f protoreflect.FieldDescriptor) []annotations.FieldBehavior {
	return proto.GetExtension(f.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
}

func typeOf(f protoreflect.FieldDescriptor) string {
	name := f.Kind().String()
	switch {
	case f.IsMap():
		return fmt.Sprintf("map of %s to %s", typeOf(f.MapKey()), typeOf(f.MapValue()))
	case f.Message() != nil:
		name = link(f.Message())
	case f.Enum() != nil:
		name = link(f.Enum())
	}
	if f.IsList() {
		return "repeated " + name
	}
	return name
}

// link is a type's name: of the API's own with a link, of others without.
func link(d protoreflect.Descriptor) string {
	if d.ParentFile().Package() != "autosched.v1" {
		return string(d.FullName())
	}
	return fmt.Sprintf("[%s](#%s)", local(d), anchor(local(d)))
}

// local is a name without the package.
func local(d protoreflect.Descriptor) string {
	return strings.TrimPrefix(string(d.FullName()), "autosched.v1.")
}

// anchor is GitHub's anchor of a heading.
func anchor(heading string) string {
	return strings.ReplaceAll(strings.ToLower(heading), ".", "")
}

// comment is a leading comment on one line, for a cell of a table.
func comment(d protoreflect.Descriptor) string {
	text := d.ParentFile().SourceLocations().ByDescriptor(d).LeadingComments
	return strings.Join(strings.Fields(escape.Replace(text)), " ")
}

// paragraphs is a leading comment between blank lines, "" without one.
func paragraphs(d protoreflect.Descriptor) string {
	text := strings.TrimSpace(d.ParentFile().SourceLocations().ByDescriptor(d).LeadingComments)
	if text == "" {
		return ""
	}
	lines := strings.Split(escape.Replace(text), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, " ")
	}
	return "\n" + strings.Join(lines, "\n") + "\n"
}

var escape = strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`)
