package server

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
)

var update = flag.Bool("update", false, "write the files of testdata/api, and docs/reference/roles.md")

// TestGolden holds the conversations with the API in testdata/api. A file is a
// list of steps, separated by blank lines:
//
//	# A comment.
//	Method
//	the request, as JSON
//	----
//	the response, as JSON, or the error
//
// A streaming method names its stream. IngestEvents sends one request and prints
// its answer. WatchConfigurations opens a watch; "receive NAME" prints its next
// message. "rounds SCHEDULER N" waits until N rounds ended since the start, and
// "restart" stops the service and starts it again on the same data.
//
// The service's clock is a minute later with each request, its ids count from 1,
// and a round adopts 1 + its number queues. Rounds decide only during "rounds"
// and "restart", so that no answer depends on how fast a round is.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/api/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no conversations in testdata/api:", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c := &conversation{t: t, dir: t.TempDir(), watches: map[string]grpc.ClientStream{}}
			c.deciding.Lock()
			defer c.deciding.Unlock()
			c.start()
			var got bytes.Buffer
			for i, step := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
				head, _, _ := strings.Cut(step+"\n", "----\n")
				if i > 0 {
					got.WriteString("\n")
				}
				got.WriteString(strings.TrimRight(head, "\n") + "\n")
				if answer := c.step(head); answer != "" {
					got.WriteString("----\n" + answer + "\n")
				}
			}
			if *update {
				if err := os.WriteFile(file, got.Bytes(), 0o666); err != nil {
					t.Fatal(err)
				}
			} else if got.String() != string(text) {
				t.Errorf("%s differs (go test -update writes it):\n%s",
					file, firstDifference(got.String(), string(text)))
			}
		})
	}
}

// conversation is the state of one file's service.
type conversation struct {
	t        *testing.T
	dir      string
	f        *fixture
	minutes  atomic.Int64 // of the service's clock: work in the background reads it, too
	ids      atomic.Int64
	watches  map[string]grpc.ClientStream
	deciding sync.Mutex // held while rounds may not decide
}

var goldenBuiltin = controller.Builtin{
	Name: "small",
	Params: []space.Param{
		{ID: "queues", Kind: space.KindInt, Min: 1, Max: 8, Default: space.Int(3),
			Description: "number of priority queues"},
		{ID: "order", Kind: space.KindCategorical, Categories: []string{"fifo", "las"}, Default: space.Text("fifo")},
	},
}

func (c *conversation) start() {
	noon := time.Date(2024, 1, 1, 12, 0, 0, 0, time.UTC)
	decide := func(_ context.Context, in round.Input) (round.Decision, error) {
		c.deciding.Lock()
		defer c.deciding.Unlock()
		return round.Decision{
			Config: in.Incumbent.With("queues", space.Int(1+in.Round)), Adopt: true, Ratio: 1.25,
			Reason:   "average JCT 25 % lower",
			Interval: round.Interval{Low: 1.1, High: 1.4}, Search: "portfolio", Why: "the workload is as before",
		}, nil
	}
	c.f = serveWith(c.t, c.dir, controller.Options{
		Decide: decide,
		Now:    func() time.Time { return noon.Add(time.Duration(c.minutes.Load()) * time.Minute) },
		NewID: func() string {
			return fmt.Sprintf("uid-%d", c.ids.Add(1))
		},
	}, Options{
		Builtins: []controller.Builtin{goldenBuiltin, testBuiltin},
		Jitter:   func(time.Duration) time.Duration { return 0 },
	})
}

// step runs a step and returns its answer, "" for one without.
func (c *conversation) step(text string) string {
	c.t.Helper()
	for strings.HasPrefix(text, "#") {
		_, text, _ = strings.Cut(text, "\n")
	}
	command, request, _ := strings.Cut(text, "\n")
	words := strings.Fields(command)
	switch words[0] {
	case "restart":
		c.deciding.Unlock()
		c.f.stop()
		c.deciding.Lock()
		c.start()
		return ""
	case "rounds":
		var n int64
		if _, err := fmt.Sscan(words[2], &n); err != nil {
			c.t.Fatalf("%s: %v", command, err)
		}
		c.deciding.Unlock()
		c.f.waitRounds(words[1], n)
		c.deciding.Lock()
		return ""
	case "receive":
		out := &pb.WatchConfigurationsResponse{}
		return answer(out, c.watches[words[1]].RecvMsg(out))
	}
	c.minutes.Add(1)
	method := c.method(words[0])
	in, out := message(c.t, method.Input()), message(c.t, method.Output())
	if err := protojson.Unmarshal([]byte(request), in); err != nil {
		c.t.Fatalf("%s: %v", command, err)
	}
	path := fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name())
	if !method.IsStreamingClient() && !method.IsStreamingServer() {
		return answer(out, c.f.conn.Invoke(background(c.t), path, in, out))
	}
	stream, err := c.f.conn.NewStream(background(c.t), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, path)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := stream.SendMsg(in); err != nil {
		c.t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		c.t.Fatal(err)
	}
	if method.IsStreamingClient() {
		return answer(out, stream.RecvMsg(out))
	}
	c.watches[words[1]] = stream
	return ""
}

// method finds an RPC of either service by its name.
func (c *conversation) method(name string) protoreflect.MethodDescriptor {
	for _, file := range []protoreflect.FileDescriptor{pb.File_autosched_v1_scheduler_proto,
		pb.File_autosched_v1_configuration_proto, pb.File_autosched_v1_audit_proto,
		pb.File_autosched_v1_study_proto, pb.File_autosched_v1_metric_proto} {
		if m := file.Services().Get(0).Methods().ByName(protoreflect.Name(name)); m != nil {
			return m
		}
	}
	c.t.Fatalf("there is no method %q", name)
	return nil
}

func message(t *testing.T, d protoreflect.MessageDescriptor) proto.Message {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		t.Fatal(err)
	}
	return kind.New().Interface()
}

// answer prints a message or an error with its details.
func answer(m proto.Message, err error) string {
	if err == nil {
		return indent(m)
	}
	st := status.Convert(err)
	lines := []string{fmt.Sprintf("error %s: %s", st.Code(), st.Message())}
	for _, d := range st.Details() {
		lines = append(lines, indent(d.(proto.Message)))
	}
	return strings.Join(lines, "\n")
}

// indent prints a message as JSON. Package protojson varies its spaces.
func indent(m proto.Message) string {
	b, err := protojson.Marshal(m)
	if err != nil {
		return err.Error()
	}
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		return err.Error()
	}
	return layout(out.Bytes(), "", 0)
}

// layout breaks compact JSON into lines of at most 110 columns. used is the number of columns before it on its line.
func layout(b []byte, prefix string, used int) string {
	if used+len(b) <= 110 || b[0] != '{' && b[0] != '[' {
		return string(b)
	}
	var lines []string
	d := json.NewDecoder(bytes.NewReader(b))
	_, _ = d.Token()
	inner := prefix + "  "
	for d.More() {
		key := ""
		if b[0] == '{' {
			name, _ := d.Token()
			key = fmt.Sprintf("%q: ", name)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err.Error()
		}
		lines = append(lines, inner+key+layout(value, inner, len(inner)+len(key)))
	}
	return fmt.Sprintf("%c\n%s\n%s%c", b[0], strings.Join(lines, ",\n"), prefix, b[len(b)-1])
}

// firstDifference shows where two texts part.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	i := 0
	for i < len(g) && i < len(w) && g[i] == w[i] {
		i++
	}
	near := func(lines []string) string {
		return strings.Join(lines[max(0, min(i, len(lines))-5):min(i+5, len(lines))], "\n")
	}
	return fmt.Sprintf("line %d: got\n%s\nwant\n%s", i+1, near(g), near(w))
}
