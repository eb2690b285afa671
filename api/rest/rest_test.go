package rest_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/rest"
)

// TestEveryMethodHasAPath: every method of the service has a path, and the document has exactly these paths. The
// services of schedulers and of evaluators are not the service's.
func TestEveryMethodHasAPath(t *testing.T) {
	has := map[string]bool{}
	want := map[string]string{}
	for _, r := range rest.Routes() {
		has[r.FullMethod()] = true
		path := regexp.MustCompile(`\{[a-z_.]+=([^}]*)\}`).ReplaceAllString(r.Path, "$1")
		want[strings.ToLower(r.Verb)+" "+path] = r.FullMethod()
	}
	n := 0
	protoregistry.GlobalFiles.RangeFilesByPackage("autosched.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			if s.Name() == "SchedulerAgent" || s.Name() == "EvaluatorService" {
				continue
			}
			for k := range s.Methods().Len() {
				n++
				if name := fmt.Sprintf("/%s/%s", s.FullName(), s.Methods().Get(k).Name()); !has[name] {
					t.Errorf("%s has no path", name)
				}
			}
		}
		return true
	})
	if n < 70 {
		t.Errorf("only %d methods", n)
	}
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(rest.OpenAPI, &document); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for path, verbs := range document.Paths {
		for verb, op := range verbs {
			if ids[op.OperationID] {
				t.Errorf("two operations %s", op.OperationID)
			}
			ids[op.OperationID] = true
			if path == "/session" {
				continue
			}
			key := verb + " " + regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(path, "*")
			if want[key] == "" {
				t.Errorf("the document has %s, which is no path", key)
			}
			delete(want, key)
		}
	}
	for key := range want {
		t.Errorf("the document lacks %s", key)
	}
}

// recorded is a connection that answers calls with the message of a test.
type recorded struct {
	method  string
	request []proto.Message
	md      metadata.MD
	answers []proto.Message
	err     error
}

func (c *recorded) Invoke(ctx context.Context, method string, in, out any, _ ...grpc.CallOption) error {
	c.method, c.request = method, []proto.Message{in.(proto.Message)}
	c.md, _ = metadata.FromOutgoingContext(ctx)
	if c.err == nil && len(c.answers) > 0 {
		proto.Merge(out.(proto.Message), c.answers[0])
	}
	return c.err
}

func (c *recorded) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (
	grpc.ClientStream, error) {
	c.method = method
	return &stream{recorded: c, ctx: ctx, closed: make(chan struct{})}, nil
}

type stream struct {
	grpc.ClientStream
	*recorded
	ctx    context.Context
	sent   int
	closed chan struct{}
}

func (s *stream) Header() (metadata.MD, error) { return nil, nil }
func (s *stream) Trailer() metadata.MD         { return nil }
func (s *stream) CloseSend() error             { close(s.closed); return nil }
func (s *stream) SendMsg(m any) error {
	s.request = append(s.request, proto.Clone(m.(proto.Message)))
	return nil
}
func (s *stream) RecvMsg(m any) error {
	<-s.closed
	if s.sent == len(s.answers) {
		if s.err != nil {
			return s.err
		}
		return io.EOF
	}
	proto.Merge(m.(proto.Message), s.answers[s.sent])
	s.sent++
	return nil
}

const maxBody = 1 << 16

func serve(t *testing.T, c *recorded) *httptest.Server {
	t.Helper()
	h, err := rest.New(rest.Options{Conn: c, Body: maxBody, BodyTimeout: time.Minute,
		Admit:    func(*http.Request, string) error { return nil },
		Metadata: func(header string) (string, bool) { return strings.ToLower(header), header == "X-Kept" }})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func do(t *testing.T, s *httptest.Server, verb, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), verb, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// TestRequests: path, query and body become the request; anything beside them is an error.
func TestRequests(t *testing.T) {
	c := &recorded{}
	s := serve(t, c)
	for _, of := range []struct {
		verb, path, body string
		code             int
		method           string // empty: no call
		want             proto.Message
	}{
		{"GET", "/v1/schedulers/prod", "", 200, "GetScheduler", &pb.GetSchedulerRequest{Name: "schedulers/prod"}},
		{"GET", "/v1/schedulers/prod@2:getRevision", "", 200, "GetSchedulerRevision",
			&pb.GetSchedulerRevisionRequest{Name: "schedulers/prod@2"}},
		{"GET", "/v1/schedulers?pageSize=3&filter=a%20%3D%20b", "", 200, "ListSchedulers",
			&pb.ListSchedulersRequest{PageSize: 3, Filter: "a = b"}},
		{"GET", "/v1/schedulers?page_size=3", "", 200, "ListSchedulers", &pb.ListSchedulersRequest{PageSize: 3}},
		{"GET", "/v1/schedulers?pagesize=3", "", 400, "", nil},
		{"GET", "/v1/schedulers?pageSize=x", "", 400, "", nil},
		{"GET", "/v1/schedulers/prod?pageSize=3", "", 400, "", nil},
		{"POST", "/v1/schedulers?schedulerId=a&validateOnly=true", `{"displayName":"x"}`, 200, "CreateScheduler",
			&pb.CreateSchedulerRequest{SchedulerId: "a", ValidateOnly: true,
				Scheduler: &pb.Scheduler{DisplayName: "x"}}},
		{"POST", "/v1/schedulers/prod/configurations/3:approve", `{"requestId":"r"}`, 200, "ApproveConfiguration",
			&pb.ApproveConfigurationRequest{Name: "schedulers/prod/configurations/3", RequestId: "r"}},
		{"POST", "/v1/schedulers/prod/configurations/3:approve", "", 200, "ApproveConfiguration",
			&pb.ApproveConfigurationRequest{Name: "schedulers/prod/configurations/3"}},
		// A dry run that the query asks for would be made.
		{"POST", "/v1/schedulers/prod/configurations/3:approve?validateOnly=true", "", 400, "", nil},
		{"POST", "/v1/schedulers/prod/configurations/3:approve?validateOnly=true;", "", 400, "", nil},
		{"POST", "/v1/schedulers/prod/configurations/3:approve?%zz", "", 400, "", nil},
		{"POST", "/v1/schedulers/prod/configurations/3:approve", `{"validateonly":true}`, 400, "", nil},
		{"POST", "/v1/schedulers/prod/configurations/3:approve", `{} {"validateOnly":true}`, 400, "", nil},
		{"POST", "/v1/schedulers/prod/configurations/3:approve", `{"requestId":"a","requestId":"b"}`, 400, "", nil},
		{"POST", "/v1/schedulers/prod/configurations/3:approve", `{"name":"schedulers/other/configurations/1"}`, 200,
			"ApproveConfiguration", &pb.ApproveConfigurationRequest{Name: "schedulers/prod/configurations/3"}},
		{"PATCH", "/v1/schedulers/prod?updateMask=displayName,spec.rollout", `{"displayName":"y"}`, 200, "UpdateScheduler",
			&pb.UpdateSchedulerRequest{Scheduler: &pb.Scheduler{Name: "schedulers/prod", DisplayName: "y"},
				UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"display_name", "spec.rollout"}}}},
		{"PATCH", "/v1/schedulers/prod", `{"spec":{"mode":"AUTO"}}`, 200, "UpdateScheduler",
			&pb.UpdateSchedulerRequest{Scheduler: &pb.Scheduler{Name: "schedulers/prod",
				Spec: &pb.SchedulerSpec{Mode: pb.SchedulerSpec_AUTO}},
				UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"spec.mode"}}}},
		{"GET", "/v1/schedulers/a%2Fconfigurations%2F1", "", 200, "GetScheduler",
			&pb.GetSchedulerRequest{Name: "schedulers/a/configurations/1"}},
		{"GET", "/v1/schedulers/%3Cscript%3E", "", 200, "GetScheduler",
			&pb.GetSchedulerRequest{Name: "schedulers/<script>"}},
		{"GET", "/v1/schedulers/a%0d%0aX-A:%20b", "", 200, "GetScheduler",
			&pb.GetSchedulerRequest{Name: "schedulers/a\r\nX-A: b"}},
		{"GET", "/v1/schedulers", `{"pageSize":3}`, 400, "", nil},
		{"DELETE", "/v1/schedulers/prod", `{"etag":"1"}`, 400, "", nil},
		{"PUT", "/v1/schedulers/prod", "", 405, "", nil},
		{"GET", "/v1/nothing", "", 404, "", nil},
		{"GET", "/v1/schedulers/prod/../../../etc/passwd", "", 404, "", nil},
		{"POST", "/v1/schedulers/prod:pause", `{"requestId":"` + strings.Repeat("a", maxBody) + `"}`, 413, "", nil},
		{"POST", "/v1/schedulers/prod:pause", `{`, 400, "", nil},
		{"POST", "/v1/schedulers/prod:pause", strings.Repeat(`{"requestId":`, 5000), 400, "", nil},
	} {
		c.method, c.request = "", nil
		resp, text := do(t, s, of.verb, of.path, of.body)
		if resp.StatusCode != of.code {
			t.Errorf("%s %s %.60s: %d, want %d: %.200s", of.verb, of.path, of.body, resp.StatusCode, of.code, text)
		}
		if c.method != "" != (of.method != "") || !strings.HasSuffix(c.method, "/"+of.method) && of.method != "" {
			t.Errorf("%s %s %.60s: called %q", of.verb, of.path, of.body, c.method)
		}
		if of.want != nil && (len(c.request) != 1 || !proto.Equal(c.request[0], of.want)) {
			t.Errorf("%s %s: %v", of.verb, of.path, c.request)
		}
		var failed struct {
			Error struct {
				Code    int
				Status  string
				Details []struct{ Reason string }
			}
		}
		if of.code >= 400 && (json.Unmarshal([]byte(text), &failed) != nil || failed.Error.Code != of.code ||
			len(failed.Error.Details) == 0 || failed.Error.Details[0].Reason == "") {
			t.Errorf("%s %s: not an error of the API: %s", of.verb, of.path, text)
		}
	}
}

// TestMediaTypes: a body counts as JSON only if it says so: forms of other sites cannot send it.
func TestMediaTypes(t *testing.T) {
	c := &recorded{}
	s := serve(t, c)
	for media, code := range map[string]int{"application/json": 200, "application/json; charset=utf-8": 200, "": 415,
		"text/plain": 415, "application/x-www-form-urlencoded": 415, "multipart/form-data; boundary=x": 415,
		"application/x-ndjson": 415, ";": 415} {
		resp, text := do(t, s, "POST", "/v1/schedulers/a:pause", "{}", "Content-Type", media)
		if resp.StatusCode != code {
			t.Errorf("%q: %d, want %d: %s", media, resp.StatusCode, code, text)
		}
	}
	for _, override := range []string{"DELETE", "PATCH"} {
		do(t, s, "POST", "/v1/schedulers/a:pause", "{}", "X-HTTP-Method-Override", override)
		if !strings.HasSuffix(c.method, "/PauseTuning") {
			t.Errorf("%s instead of POST calls %s", override, c.method)
		}
	}
}

// TestMetadata: headers reach the call if the options say so, and no others.
func TestMetadata(t *testing.T) {
	c := &recorded{}
	s := serve(t, c)
	do(t, s, "GET", "/v1/schedulers/a", "", "X-Kept", "1", "Cookie", "a=b", "Grpc-Metadata-Other", "2")
	for key := range c.md {
		if key != "x-kept" && !strings.HasPrefix(key, "x-forwarded-") {
			t.Errorf("metadata %s: %v", key, c.md[key])
		}
	}
	if !slices.Equal(c.md["x-kept"], []string{"1"}) {
		t.Errorf("metadata %v", c.md)
	}
}

// TestErrors: codes, reasons and the time to wait.
func TestErrors(t *testing.T) {
	c := &recorded{}
	s := serve(t, c)
	for _, of := range []struct {
		err  error
		code int
		want string
	}{
		{status.Error(codes.NotFound, "gone"), 404, `"status":"NOT_FOUND","message":"gone"`},
		{status.Error(codes.PermissionDenied, "no"), 403, `"reason":"PERMISSION_DENIED"`},
		{status.Error(codes.Unauthenticated, "a\r\nX-Injected: 1"), 401, `"status":"UNAUTHENTICATED"`},
		{rest.Limited(1500*time.Millisecond, "slower"), 429, `"retryDelay":"1.500s"`},
		{status.Error(codes.Internal, "</script>"), 500, `\u003c/script\u003e`},
	} {
		c.err = of.err
		resp, text := do(t, s, "GET", "/v1/schedulers/a", "")
		if resp.StatusCode != of.code || !strings.Contains(text, of.want) || resp.Header.Get("X-Injected") != "" {
			t.Errorf("%v: %d %s", of.err, resp.StatusCode, text)
		}
		if after := resp.Header.Get("Retry-After"); (of.code == 429) != (after == "2") {
			t.Errorf("%v: Retry-After %q", of.err, after)
		}
	}
}

// TestServerSentEvents: a watch is a stream of events whose ids resume it; its end is an event, too.
func TestServerSentEvents(t *testing.T) {
	c := &recorded{err: status.Error(codes.Unavailable, "stopping"), answers: []proto.Message{
		&pb.WatchConfigurationsResponse{ResumeToken: "t1", Event: &pb.WatchConfigurationsResponse_Configuration{
			Configuration: &pb.Configuration{Name: "schedulers/a/configurations/1", Revision: 1}}},
		&pb.WatchConfigurationsResponse{ResumeToken: "t2", Event: &pb.WatchConfigurationsResponse_Bookmark_{
			Bookmark: &pb.WatchConfigurationsResponse_Bookmark{}}}}}
	s := serve(t, c)
	resp, text := do(t, s, "GET", "/v1/schedulers/a/configurations:watch?sendInitialEvents=true", "",
		"Accept", "text/event-stream", "Last-Event-ID", "t0")
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("type %s", resp.Header.Get("Content-Type"))
	}
	if want := (&pb.WatchConfigurationsRequest{Parent: "schedulers/a", ResumeToken: "t0"}); !proto.Equal(c.request[0],
		want) {
		t.Errorf("request %v", c.request[0])
	}
	events := strings.Split(strings.TrimSpace(text), "\n\n")
	if len(events) != 3 || !strings.HasPrefix(events[0], "event: configuration\nid: t1\ndata: {") ||
		!strings.HasPrefix(events[1], "event: bookmark\nid: t2\ndata: {") ||
		!strings.HasPrefix(events[2], "event: error\ndata: {\"error\":{\"code\":503,\"status\":\"UNAVAILABLE\"") {
		t.Fatalf("events %q", events)
	}
	got := &pb.WatchConfigurationsResponse{}
	_, data, _ := strings.Cut(events[0], "\ndata: ")
	if err := protojson.Unmarshal([]byte(data), got); err != nil || !proto.Equal(got, c.answers[0]) {
		t.Errorf("data %s: %v", data, err)
	}
}

// TestStreamedBody: lines of a body are messages of a stream, all of them right, and answers are lines.
func TestStreamedBody(t *testing.T) {
	c := &recorded{answers: []proto.Message{&pb.IngestEventsResponse{Sequence: 1},
		&pb.IngestEventsResponse{Sequence: 2}}}
	s := serve(t, c)
	resp, text := do(t, s, "POST", "/v1/events:ingest",
		"{\"parent\":\"schedulers/a\",\"sequence\":\"1\"}\n\n{\"sequence\":2}\n", "Content-Type", "application/x-ndjson")
	if resp.StatusCode != 200 || len(c.request) != 2 || strings.Count(text, "\n") != 2 ||
		!strings.Contains(text, `{"result":{"sequence":"1"}}`) {
		t.Errorf("%d %s: %v", resp.StatusCode, text, c.request)
	}
	for body, code := range map[string]int{
		"{\"sequence\":1}\n{\"sequenc\":2}\n": 400, // the first would be stored, the second ignored
		"{\"sequence\":1}\n{":                 400, "[]": 400,
		strings.Repeat("{\"sequence\":1}\n", 16*maxBody/15+9): 413,
	} {
		c.request = nil
		resp, text := do(t, s, "POST", "/v1/events:ingest", body, "Content-Type", "application/x-ndjson")
		if resp.StatusCode != code || len(c.request) > 0 {
			t.Errorf("%.40q: %d, %d messages sent: %s", body, resp.StatusCode, len(c.request), text)
		}
	}
}

// TestSlowBody: a body that does not arrive ends its request.
func TestSlowBody(t *testing.T) {
	h, err := rest.New(rest.Options{Conn: &recorded{}, Body: maxBody, BodyTimeout: time.Millisecond,
		Admit:    func(*http.Request, string) error { return nil },
		Metadata: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	defer s.Close()
	for _, path := range []string{"/v1/schedulers/a:pause", "/v1/events:ingest"} {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"+
			"Content-Length: 9\r\n\r\n{", path)
		answer, err := io.ReadAll(conn) // until the server closes
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
			t.Errorf("%s: %v %s", path, err, answer)
		}
		_ = conn.Close()
	}
}

// FuzzRequests: whatever the path and the body, the answer is JSON, and a call is one of its path.
func FuzzRequests(f *testing.F) {
	f.Add("GET", "/v1/schedulers/prod", "")
	f.Add("POST", "/v1/schedulers/prod:pause", `{"requestId":"a"}`)
	f.Add("POST", "/v1/events:ingest", `{"events":[{}]}`)
	f.Add("GET", "/v1/schedulers/a/configurations:watch?resumeToken=x", "")
	f.Add("PATCH", "/v1/schedulers/a?updateMask=a,b", `{"spec":{"parameters":[{"doubleValueSpec":{"minValue":"NaN"}}]}}`)
	c := &recorded{err: errors.New("refused")}
	h, err := rest.New(rest.Options{Conn: c, Body: maxBody, BodyTimeout: time.Minute,
		Admit:    func(*http.Request, string) error { return nil },
		Metadata: func(string) (string, bool) { return "", false }})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, verb, target, body string) {
		req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(fmt.Sprintf(
			"%s %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", verb, target,
			len(body), body))))
		if err != nil {
			return
		}
		c.method = ""
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if c.method != "" && w.Code == http.StatusNotFound {
			t.Errorf("%s %s calls %s and is not found", verb, target, c.method)
		}
		for _, line := range bytes.Split(bytes.TrimSpace(w.Body.Bytes()), []byte("\n")) {
			if !json.Valid(line) {
				t.Errorf("%s %s: %d %q", verb, target, w.Code, line)
			}
		}
	})
}
