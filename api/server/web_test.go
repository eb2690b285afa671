package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	codepb "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/rest"
)

// browser calls a service by HTTP.
type browser struct {
	t      *testing.T
	base   string
	client *http.Client
}

// browse serves HTTP as the service does.
func (s *secured) browse(certificates ...tls.Certificate) *browser {
	s.t.Helper()
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: x509.NewCertPool(), Certificates: certificates}
	config.RootCAs.AppendCertsFromPEM(s.ca.Cert)
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &browser{s.t, "https://" + serveWeb(s.t, s.server, s.server.guard.access.TLS("h2", "http/1.1")),
		&http.Client{Transport: transport}}
}

func serveWeb(t *testing.T, s *Server, config *tls.Config) (address string) {
	t.Helper()
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	address = l.Addr().String()
	if config != nil {
		l = tls.NewListener(l, config)
	}
	h := &http.Server{Handler: s.Web(), ReadHeaderTimeout: time.Minute}
	go func() { _ = h.Serve(l) }()
	t.Cleanup(func() { _ = h.Close() })
	return address
}

// do sends a request with headers and returns the answer and its body.
func (b *browser) do(verb, path, body string, headers ...string) (*http.Response, string) {
	b.t.Helper()
	req := must[*http.Request](b.t)(http.NewRequestWithContext(b.t.Context(), verb, b.base+path,
		strings.NewReader(body)))
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		} else if headers[i+1] != "" {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	resp := must[*http.Response](b.t)(b.client.Do(req))
	defer resp.Body.Close()
	return resp, string(must[[]byte](b.t)(io.ReadAll(resp.Body)))
}

// signIn returns the cookie of a new session.
func (b *browser) signIn(token string) string {
	b.t.Helper()
	resp, text := b.do("POST", "/session", fmt.Sprintf(`{"token":%q}`, token))
	if resp.StatusCode != http.StatusOK || len(resp.Cookies()) != 1 {
		b.t.Fatalf("%s: %s", resp.Status, text)
	}
	return resp.Cookies()[0].Name + "=" + resp.Cookies()[0].Value
}

// failed is the status of an error's JSON, "OK" of another answer.
func failed(text string) (code, message string) {
	var f struct {
		Error struct{ Status, Message string }
	}
	if json.Unmarshal([]byte(text), &f) != nil || f.Error.Status == "" {
		return "OK", ""
	}
	return f.Error.Status, f.Error.Message
}

// TestHTTPAnswersAsGRPC calls every path of every method as every kind of caller, by token, by session and by
// certificate, and compares the answer with that of the same request by gRPC.
func TestHTTPAnswersAsGRPC(t *testing.T) {
	s := newSecured(t)
	want := map[string][]string{}
	for _, line := range strings.Split(strings.TrimSpace(accessMatrix), "\n")[1:] {
		fields := strings.Fields(line)
		want[fields[0]] = fields[1:]
	}
	conn, web := s.dial(nil), s.browse()
	cookies := map[string]string{}
	certified := map[string]*browser{}
	for _, name := range []string{"viewer", "operator", "admin", "prod"} {
		cookies[name] = web.signIn("token-" + name)
		certified[name] = s.browse(s.client("spiffe://test/" + name))
	}
	for _, r := range rest.Routes() {
		for i, caller := range []struct{ name, scheduler string }{
			{"", "prod"}, {"viewer", "prod"}, {"operator", "prod"}, {"admin", "prod"}, {"prod", "prod"}, {"prod", "other"},
		} {
			req, path, body := requestOf(t, r, caller.scheduler)
			token := ""
			if caller.name != "" {
				token = "token-" + caller.name
			}
			rpcCode, rpcText := callOf(t, conn, r, req, token)
			refused := rpcCode == "UNAUTHENTICATED" || rpcCode == "PERMISSION_DENIED"
			if refused != (want[r.FullMethod()][i] == "-") {
				t.Errorf("%s by gRPC, %q about %s: %s", r.Path, caller.name, caller.scheduler, rpcCode)
			}
			media := "application/json"
			if r.Method.IsStreamingClient() {
				media = "application/x-ndjson"
			}
			for kind, send := range map[string]func() (*http.Response, string){
				"token": func() (*http.Response, string) {
					bearer := ""
					if token != "" {
						bearer = "Bearer " + token
					}
					return web.do(r.Verb, path, body, "Authorization", bearer, "Content-Type", media)
				},
				"session": func() (*http.Response, string) {
					return web.do(r.Verb, path, body, "Cookie", cookies[caller.name], "Origin", web.base, "Content-Type", media)
				},
				"certificate": func() (*http.Response, string) {
					if caller.name == "" {
						return web.do(r.Verb, path, body, "Content-Type", media)
					}
					return certified[caller.name].do(r.Verb, path, body, "Content-Type", media)
				},
			} {
				resp, text := send()
				code, message := failed(text)
				if code != rpcCode || message != rpcText && code != "OK" || (code == "OK") != (resp.StatusCode == 200) {
					t.Errorf("%s %s by %s, %q about %s: %d %s %q, by gRPC %s %q", r.Verb, r.Path, kind, caller.name,
						caller.scheduler, resp.StatusCode, code, message, rpcCode, rpcText)
				}
			}
		}
	}
}

var wildcard = regexp.MustCompile(`\{([a-z_.]+)=([^}]*)\}`)

// requestOf is a request about a scheduler, as a message and as path and body.
func requestOf(t *testing.T, r rest.Route, scheduler string) (req proto.Message, path, body string) {
	t.Helper()
	mt := must[protoreflect.MessageType](t)(protoregistry.GlobalTypes.FindMessageByName(r.Method.Input().FullName()))
	m := mt.New()
	set := func(field, value string) {
		m.Set(mt.Descriptor().Fields().ByName(protoreflect.Name(field)), protoreflect.ValueOfString(value))
	}
	path = wildcard.ReplaceAllStringFunc(r.Path, func(v string) string {
		of := wildcard.FindStringSubmatch(v)
		name := strings.ReplaceAll(strings.Replace(of[2], "schedulers/*", "schedulers/"+scheduler, 1), "*", "1")
		switch {
		case of[1] == "scheduler.name":
			m.Set(mt.Descriptor().Fields().ByName("scheduler"), protoreflect.ValueOfMessage(
				(&pb.Scheduler{Name: name}).ProtoReflect()))
		default:
			set(of[1], name)
		}
		return name
	})
	switch {
	case r.Method.Name() == "CreateScheduler":
		set("scheduler_id", scheduler)
		path += "?schedulerId=" + scheduler
		m.Set(mt.Descriptor().Fields().ByName("scheduler"),
			protoreflect.ValueOfMessage((&pb.Scheduler{}).ProtoReflect()))
		body = "{}"
	case r.Method.Name() == "ListEvaluators":
		set("parent", "schedulers/"+scheduler)
		path += "?parent=schedulers/" + scheduler
	case r.Method.IsStreamingClient():
		set("parent", "schedulers/"+scheduler)
		body = string(must[[]byte](t)(protojson.Marshal(m.Interface())))
	case r.Verb == "POST" || r.Verb == "PATCH":
		body = "{}"
		for _, field := range []protoreflect.Name{"study", "trial"} {
			if f := mt.Descriptor().Fields().ByName(field); f != nil && f.Message() != nil {
				m.Set(f, m.NewField(f))
			}
		}
	}
	if f := mt.Descriptor().Fields().ByName("update_mask"); f != nil {
		path += "?updateMask=displayName"
		m.Set(f, protoreflect.ValueOfMessage((&fieldmaskpb.FieldMask{Paths: []string{"display_name"}}).ProtoReflect()))
	}
	return m.Interface(), path, body
}

// callOf is the answer of a method by gRPC.
func callOf(t *testing.T, conn *grpc.ClientConn, r rest.Route, req proto.Message, token string) (code, text string) {
	t.Helper()
	ctx, cancel := context.WithCancel(with(background(t), token))
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, r.FullMethod())
	if err == nil {
		_ = stream.SendMsg(req)
		_ = stream.CloseSend()
		out := must[protoreflect.MessageType](t)(
			protoregistry.GlobalTypes.FindMessageByName(r.Method.Output().FullName()))
		for err == nil {
			err = stream.RecvMsg(out.New().Interface())
		}
		if err == io.EOF {
			err = nil
		}
	}
	return codepb.Code(status.Code(err)).String(), status.Convert(err).Message()
}

// TestSessions: a cookie is a caller until it signs out, or the roles file has it no more or otherwise.
func TestSessions(t *testing.T) {
	s := newSecured(t)
	web := s.browse()
	list := func(cookie string, headers ...string) int {
		resp, _ := web.do("GET", "/v1/schedulers", "", append(headers, "Cookie", cookie)...)
		return resp.StatusCode
	}
	resp, text := web.do("POST", "/session", `{"token":"token-viewer"}`)
	cookie := resp.Header.Get("Set-Cookie")
	for _, part := range []string{"__Host-autosched-", "; Path=/", "; HttpOnly", "; Secure", "; SameSite=Strict",
		"; Max-Age=43200"} {
		if !strings.Contains(cookie, part) {
			t.Errorf("cookie %q lacks %s", cookie, part)
		}
	}
	var who struct {
		Name, Role, Credential string
		Methods                []string
	}
	if err := json.Unmarshal([]byte(text), &who); err != nil || who.Name != "viewer" || who.Role != "viewer" ||
		who.Credential != "session" || !slices.Contains(who.Methods, "ListSchedulers") ||
		slices.Contains(who.Methods, "PauseTuning") {
		t.Errorf("%s: %v", text, err)
	}
	viewer, operator := web.signIn("token-viewer"), web.signIn("token-operator")
	if strings.Contains(viewer, "token-viewer") || viewer == operator {
		t.Errorf("cookies %q and %q", viewer, operator)
	}
	for _, of := range []struct {
		name    string
		verb    string
		headers []string
		code    int
	}{
		{"a viewer reads", "GET", []string{"Cookie", viewer}, 200},
		{"a viewer's cookie changes nothing", "POST", []string{"Cookie", viewer, "Origin", web.base}, 403},
		{"nor with an operator's beside it", "POST",
			[]string{"Cookie", viewer + "; " + operator, "Origin", web.base}, 403},
		{"an operator changes", "POST", []string{"Cookie", operator, "Origin", web.base}, 404},
		{"a page of the same site", "POST", []string{"Cookie", operator, "Sec-Fetch-Site", "same-origin"}, 404},
		{"a change without an origin", "POST", []string{"Cookie", operator}, 403},
		{"another site's form", "POST", []string{"Cookie", operator, "Origin", "https://evil.example"}, 403},
		{"a sandboxed page", "POST", []string{"Cookie", operator, "Origin", "null"}, 403},
		{"another port", "POST", []string{"Cookie", operator, "Origin", "https://127.0.0.1:1"}, 403},
		{"another site's image", "GET", []string{"Cookie", operator, "Sec-Fetch-Site", "cross-site"}, 403},
		{"a sibling site's", "GET", []string{"Cookie", operator, "Sec-Fetch-Site", "same-site"}, 403},
		{"a token counts before the cookie", "POST",
			[]string{"Cookie", operator, "Authorization", "Bearer token-viewer", "Origin", web.base}, 403},
		{"a wrong token beside a cookie", "GET", []string{"Cookie", operator, "Authorization", "Bearer x"}, 401},
		{"a guessed session", "GET", []string{"Cookie", viewer[:len(viewer)-1]}, 401},
		{"a token as a cookie", "GET", []string{"Cookie", strings.Split(viewer, "=")[0] + "=token-admin"}, 401},
		{"a number of the relay", "GET", []string{relayKey, "1"}, 401},
		{"a number as metadata", "GET", []string{"Grpc-Metadata-" + relayKey, "1"}, 401},
		{"a number beside a cookie", "POST", []string{"Cookie", viewer, relayKey, "1", "Origin", web.base}, 403},
	} {
		path := map[string]string{"GET": "/v1/schedulers", "POST": "/v1/schedulers/prod:pause"}[of.verb]
		if resp, text := web.do(of.verb, path, "", of.headers...); resp.StatusCode != of.code {
			t.Errorf("%s: %d, want %d: %s", of.name, resp.StatusCode, of.code, text)
		}
	}
	if resp, _ := web.do("DELETE", "/session", "", "Cookie", viewer); resp.StatusCode != 200 || list(viewer) != 401 {
		t.Errorf("sign-out: %s", resp.Status)
	}
	// Signing in again ends the session of the former cookie.
	again := web.signIn("token-viewer")
	if _, text := web.do("POST", "/session", `{"token":"token-operator"}`, "Cookie", again); list(again) != 401 {
		t.Errorf("the former session goes on: %s", text)
	}
	// Another role, and a token that is gone.
	viewer, operator = web.signIn("token-viewer"), web.signIn("token-operator")
	s.replace(s.files.Roles, strings.ReplaceAll(testRoles(), "role: operator", "role: admin"))
	for list(operator) != 401 {
		time.Sleep(time.Millisecond)
	}
	if list(viewer) != 200 {
		t.Error("the session of another caller ended")
	}
	s.replace(s.files.Roles, strings.Join(slices.DeleteFunc(strings.SplitAfter(testRoles(), "\n"),
		func(line string) bool { return strings.Contains(line, "name: viewer") }), ""))
	for list(viewer) != 401 {
		time.Sleep(time.Millisecond)
	}
	admin := web.signIn("token-admin")
	s.clock.Store(int64(access.SessionIdle))
	if list(admin) != 401 {
		t.Error("an idle session goes on")
	}
}

// TestSessionEndsStream: a watch ends with the session that began it.
func TestSessionEndsStream(t *testing.T) {
	s := newSecured(t)
	if _, err := pb.NewTuningServiceClient(s.as("admin")).CreateScheduler(background(t), &pb.CreateSchedulerRequest{
		SchedulerId: "prod", Scheduler: &pb.Scheduler{Spec: &pb.SchedulerSpec{SchedulerType: "test",
			Cluster: &pb.Cluster{Nodes: 2, GpusPerNode: 8}}}}); err != nil {
		t.Fatal(err)
	}
	web := s.browse()
	for name, end := range map[string]func(cookie string){
		"sign-out": func(cookie string) { web.do("DELETE", "/session", "", "Cookie", cookie) },
		"revoked": func(string) {
			s.replace(s.files.Roles, strings.ReplaceAll(testRoles(), "role: viewer", "role: operator"))
		},
	} {
		cookie := web.signIn("token-viewer")
		req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), "GET",
			web.base+"/v1/schedulers/prod/configurations:watch?sendInitialEvents=true", nil))
		req.Header.Set("Cookie", cookie)
		req.Header.Set("Accept", "text/event-stream")
		resp := must[*http.Response](t)(web.client.Do(req))
		lines := bufio.NewReader(resp.Body)
		for line := ""; line != "event: bookmark\n"; {
			line = must[string](t)(lines.ReadString('\n'))
		}
		end(cookie)
		for err := error(nil); err == nil; {
			_, err = lines.ReadString('\n')
		}
		_ = resp.Body.Close()
		if resp, _ := web.do("GET", "/session", "", "Cookie", cookie); resp.StatusCode != 401 {
			t.Errorf("%s: the session goes on: %s", name, resp.Status)
		}
	}
}

// TestShutdownEndsEvents: a stream of events ends with UNAVAILABLE, the code of later calls.
func TestShutdownEndsEvents(t *testing.T) {
	f := serve(t, nil)
	f.create("a", pb.SchedulerSpec_AUTO)
	base := "http://" + serveWeb(t, f.server, nil)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), "GET",
		base+"/v1/schedulers/a/configurations:watch?sendInitialEvents=true", nil))
	req.Header.Set("Accept", "text/event-stream")
	resp := must[*http.Response](t)(client.Do(req))
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for line := ""; line != "event: bookmark\n"; {
		line = must[string](t)(lines.ReadString('\n'))
	}
	f.stop()
	rest := string(must[[]byte](t)(io.ReadAll(lines)))
	if !strings.Contains(rest, "event: error\ndata: {\"error\":{\"code\":503,\"status\":\"UNAVAILABLE\"") {
		t.Errorf("the stream ends with %q", rest)
	}
	web := &browser{t, base, client}
	if resp, text := web.do("GET", "/v1/schedulers", ""); resp.StatusCode != 503 {
		t.Errorf("after the end: %s %s", resp.Status, text)
	}
	if resp, text := web.do("GET", "/healthz", ""); resp.StatusCode != 200 {
		t.Errorf("after the end: %s %s", resp.Status, text)
	}
}

// TestWrongTokens: an address that sends wrong tokens has to wait, and no other.
func TestWrongTokens(t *testing.T) {
	s := newSecured(t)
	handler := s.server.Web()
	post := func(from, token string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "/session", strings.NewReader(fmt.Sprintf(`{"token":%q}`, token)))
		r.Header.Set("Content-Type", "application/json")
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	for i := range 7 {
		want := 401
		if i >= 5 {
			want = 429
		}
		if w := post(fmt.Sprintf("[2001:db8::%d]:1", i), "guess"); w.Code != want ||
			(w.Header().Get("Retry-After") != "") != (want == 429) {
			t.Errorf("token %d: %d %s", i, w.Code, w.Body)
		}
	}
	if w := post("[2001:db8::1]:2", "token-viewer"); w.Code != 429 {
		t.Errorf("the right one of the address: %d", w.Code)
	}
	if w := post("192.0.2.1:1", "token-viewer"); w.Code != 200 {
		t.Errorf("another address: %d", w.Code)
	}
	for i := range 3000 { // addresses do not grow memory
		post(fmt.Sprintf("10.1.%d.%d:1", i/256, i%256), "guess")
	}
	s.clock.Store(int64(time.Hour))
	if w := post("[2001:db8::1]:2", "token-viewer"); w.Code != 200 {
		t.Errorf("the right one later: %d", w.Code)
	}
}

// TestRequestsOfACaller: a caller with as many requests as one may have is refused, others are not, and requests that
// have ended count no more.
func TestRequestsOfACaller(t *testing.T) {
	s := newSecured(t)
	web := s.browse()
	who := func(token string) int {
		resp, _ := web.do("GET", "/v1/schedulers", "", "Authorization", "Bearer "+token)
		return resp.StatusCode
	}
	if got := who("token-viewer"); got != 200 {
		t.Fatalf("the first: %d", got)
	}
	held := &s.server.web.callers
	for underWay := 1; underWay > 0; time.Sleep(time.Millisecond) { // its handler may still return
		held.mu.Lock()
		underWay = len(held.n)
		held.mu.Unlock()
	}
	for range maxRequests {
		held.enter("viewer")
	}
	if got := who("token-viewer"); got != 429 {
		t.Errorf("one more: %d", got)
	}
	if got := who("token-operator"); got != 200 {
		t.Errorf("another caller: %d", got)
	}
	held.leave("viewer")
	if got := who("token-viewer"); got != 200 {
		t.Errorf("after one has ended: %d", got)
	}
}

// TestConnectionsOfACaller: connections beyond those that a caller may keep end with an answer, those of others are
// kept, and closed ones count no more.
func TestConnectionsOfACaller(t *testing.T) {
	s := newSecured(t)
	server := httptest.NewUnstartedServer(s.server.Web())
	server.Config.ConnState = s.server.web.ConnState
	server.Start()
	defer server.Close()
	ask := func(token string) (client *http.Client, kept bool) {
		client = &http.Client{Transport: &http.Transport{}}
		r := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), "GET", server.URL+"/v1/schedulers", nil))
		r.Header.Set("Authorization", "Bearer "+token)
		resp := must[*http.Response](t)(client.Do(r))
		_, _ = io.Copy(io.Discard, resp.Body) // else the connection is not kept
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
		return client, !resp.Close
	}
	var clients []*http.Client
	for i := range maxKept {
		c, kept := ask("token-viewer")
		if clients = append(clients, c); !kept {
			t.Fatalf("connection %d ends", i)
		}
	}
	if _, kept := ask("token-viewer"); kept {
		t.Error("one more is kept")
	}
	other, kept := ask("token-operator")
	if !kept {
		t.Error("another caller's ends")
	}
	other.CloseIdleConnections()
	for _, c := range clients {
		c.CloseIdleConnections()
	}
	for open := 1; open > 0; time.Sleep(time.Millisecond) {
		s.server.web.kept.mu.Lock()
		open = len(s.server.web.kept.owner)
		s.server.web.kept.mu.Unlock()
	}
	if n := len(s.server.web.kept.n); n > 0 {
		t.Errorf("%d callers have connections", n)
	}
	if c, kept := ask("token-viewer"); !kept {
		t.Error("after they are closed, one ends")
	} else {
		c.CloseIdleConnections()
	}
}

// TestHosts: where every caller may do anything, a name of another site that points to this host opens nothing.
func TestHosts(t *testing.T) {
	f := serve(t, nil)
	web := &browser{t, "http://" + serveWeb(t, f.server, nil),
		&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	for host, code := range map[string]int{"": 200, "localhost": 200, "LOCALHOST:9443": 200, "127.0.0.1": 200,
		"127.1.2.3:80": 200, "[::1]:9": 200, "evil.example": 421, "localhost.evil.example": 421,
		"127.0.0.1.evil.example": 421,
		"10.0.0.1":               421, "0.0.0.0": 421} {
		for _, path := range []string{"/v1/schedulers", "/", "/metrics", "/session"} {
			resp, text := web.do("GET", path, "", "Host", host)
			if resp.StatusCode != code {
				t.Errorf("%s of host %q: %d %s", path, host, resp.StatusCode, text)
			}
		}
	}
	resp, text := web.do("GET", "/session", "")
	if resp.StatusCode != 200 || !strings.Contains(text, `"credential":"none"`) || resp.Header.Get("Set-Cookie") != "" {
		t.Errorf("%s: %s", resp.Status, text)
	}
	for name, want := range map[string]string{"Content-Security-Policy": dataPolicy, "Cache-Control": "no-store",
		"X-Content-Type-Options": "nosniff", "Access-Control-Allow-Origin": ""} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if resp, _ := web.do("OPTIONS", "/v1/schedulers", "", "Origin", "http://evil.example",
		"Access-Control-Request-Method", "POST"); resp.StatusCode != 403 {
		t.Errorf("a preflight: %s", resp.Status)
	}
}

// TestPages: pages answer where nothing else does, without an identity, too.
func TestPages(t *testing.T) {
	f := serve(t, nil)
	f.server.web = newWeb(f.server, &Options{Pages: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "page ", r.URL.Path)
	})})
	for path, want := range map[string]string{"/": "page /", "/a/b.js": "page /a/b.js", "/healthz": "ok\n"} {
		if code, text := get(f, path); code != 200 || text != want {
			t.Errorf("%s: %d %q", path, code, text)
		}
	}
	if code, _ := get(f, "/v1/none"); code != 404 {
		t.Errorf("a path of the API: %d", code)
	}
}

// TestHostileRequests: large bodies, slow and rude clients get an error or no answer, and the next is served.
func TestHostileRequests(t *testing.T) {
	s := newSecured(t)
	web := s.browse()
	large := `{"reason":"` + strings.Repeat("a", 10<<20) + `"}`
	if resp, text := web.do("GET", "/v1/schedulers", "", "Authorization", "Bearer token-viewer", "Sec-Fetch-Site",
		"cross-site"); resp.StatusCode != 403 {
		t.Errorf("a page of another site: %s %s", resp.Status, text)
	}
	for _, of := range []struct {
		name, verb, path, body, token string
		code                          int
	}{
		{"10 MB", "POST", "/v1/schedulers/prod:freeze", large, "token-admin", 413},
		{"10 MB without an identity", "POST", "/v1/schedulers/prod:freeze", large, "", 401},
		{"10 MB of a stream by a viewer", "POST", "/v1/events:ingest", large, "token-viewer", 403},
		{"10 MB of sign-in", "POST", "/session", `{"token":"` + large[11:], "", 400},
		{"deep JSON", "POST", "/v1/schedulers/prod:freeze", strings.Repeat("[", 1<<20), "token-admin", 400},
		{"a path out of the API", "GET", "/v1/../metrics", "", "", 401},
		{"an escaped path out of the API", "GET", "/v1/%2e%2e/metrics", "", "token-viewer", 404},
		{"a file", "GET", "/v1/schedulers/..%2f..%2fetc%2fpasswd", "", "token-viewer", 400},
		{"a script", "GET", "/v1/schedulers/%3Cscript%3E", "", "token-viewer", 400},
		{"a header in a name", "GET", "/v1/schedulers/a%0d%0aSet-Cookie:%20a=b", "", "token-viewer", 400},
		{"a null", "GET", "/v1/schedulers/a%00", "", "token-viewer", 400},
		{"not UTF-8", "GET", "/v1/schedulers/%ff%fe", "", "token-viewer", 400},
		{"not UTF-8 in the query", "GET", "/v1/schedulers?filter=%ff", "", "token-viewer", 400},
		{"a long name", "GET", "/v1/schedulers/" + strings.Repeat("a", 20_000), "", "token-viewer", 400},
	} {
		bearer := ""
		if of.token != "" {
			bearer = "Bearer " + of.token
		}
		resp, text := web.do(of.verb, of.path, of.body, "Authorization", bearer)
		if resp.StatusCode != of.code || len(resp.Cookies()) > 0 || strings.Contains(text, "<script>") {
			t.Errorf("%s: %s, want %d: %.300s", of.name, resp.Status, of.code, text)
		}
	}
}

// FuzzCallers: whatever the headers of a request say, it gets nothing without a token, a session or a certificate.
func FuzzCallers(f *testing.F) {
	file := filepath.Join(f.TempDir(), "roles.yaml")
	if err := os.WriteFile(file, []byte(testRoles()), 0o600); err != nil {
		f.Fatal(err)
	}
	source, err := access.Open(access.Files{Roles: file}, access.Options{})
	if err != nil {
		f.Fatal(err)
	}
	o := Options{Access: source}
	o.setDefaults()
	s := &Server{log: o.Log, newID: o.NewID, metrics: &metrics{registry: prometheus.NewRegistry()}}
	s.guard = newGuard(s, source)
	h := newWeb(s, &o)
	reached := false
	h.paths = h.identified(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	id, _, err := h.sessions.SignIn("token-viewer", netip.Addr{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("Bearer token-none", "autosched-0=x", "1", "same-origin", "http://a", "GET")
	f.Add("", "autosched-0=x; __Host-autosched-0=y", "", "none", "", "POST")
	f.Add("Bearer", "=", "0", "cross-site", "null", "DELETE")
	f.Fuzz(func(t *testing.T, authorization, cookie, number, site, origin, verb string) {
		for _, text := range []string{authorization, cookie} {
			if strings.Contains(text, "token-") && !strings.Contains(text, "none") || strings.Contains(text, id) {
				return
			}
		}
		r := httptest.NewRequest("GET", "/v1/schedulers", nil)
		r.Method = verb
		for name, value := range map[string]string{"Authorization": authorization, "Cookie": cookie, relayKey: number,
			"Sec-Fetch-Site": site, "Origin": origin} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		reached = false
		if h.ServeHTTP(w, r); reached || w.Code != http.StatusUnauthorized && w.Code != http.StatusForbidden {
			t.Errorf("%d %s: reached %v", w.Code, w.Body, reached)
		}
	})
}

// deadlines records the last time that is set for a body.
type deadlines struct {
	*httptest.ResponseRecorder
	read time.Time
}

// SetReadDeadline implements the method of [http.ResponseController].
func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.read = t
	return nil
}

// TestSignInBodyEnds: the server reads the rest of a body after the answer, which must not wait for a client forever.
func TestSignInBodyEnds(t *testing.T) {
	s := newSecured(t)
	for _, token := range []string{"guess", "token-viewer"} {
		r := httptest.NewRequest("POST", "/session", strings.NewReader(fmt.Sprintf(`{"token":%q} more`, token)))
		r.Header.Set("Content-Type", "application/json")
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		if s.server.Web().ServeHTTP(w, r); w.read.IsZero() {
			t.Errorf("%s: %d, and the rest of the body may take any time", token, w.Code)
		}
	}
}

// TestHTTPRequestIDs: every answer of the API has the id of its call, also where it is an error.
func TestHTTPRequestIDs(t *testing.T) {
	s := newSecured(t)
	web := s.browse()
	for _, of := range []struct {
		verb, path, token, id string
		code                  int
	}{
		{"GET", "/v1/schedulers", "viewer", "id-1", 200},
		{"GET", "/v1/schedulers", "viewer", "", 200},
		{"GET", "/v1/schedulers", "viewer", "two words", 200},
		{"GET", "/v1/schedulers/none", "viewer", "id-2", 404},
		{"GET", "/v1/nothing", "viewer", "id-3", 404},
		{"GET", "/v1/schedulers?size=1", "viewer", "id-4", 400},
		{"POST", "/v1/schedulers/prod:pause", "viewer", "id-5", 403},
		{"GET", "/v1/schedulers", "none", "id-6", 401},
		{"GET", "/v1/schedulers/none/configurations:watch", "viewer", "id-7", 404},
	} {
		resp, text := web.do(of.verb, of.path, "", "Authorization", "Bearer token-"+of.token, "X-Request-Id", of.id)
		ids := resp.Header.Values("X-Request-Id")
		if resp.StatusCode != of.code || len(ids) != 1 || ids[0] == "" ||
			(ids[0] == of.id) != strings.HasPrefix(of.id, "id-") {
			t.Errorf("%s %s %q: %s, ids %q: %s", of.verb, of.path, of.id, resp.Status, ids, text)
		}
	}
}
