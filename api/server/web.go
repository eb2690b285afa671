package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/autosched/autosched/api/access"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/rest"
	"github.com/autosched/autosched/api/server/forward"
	"github.com/autosched/autosched/api/server/rpc"
)

// Times and sizes of HTTP.
const (
	webTimeout = 30 * time.Second // of a body, and of each part of an answer
	jsonBytes  = 2                // of JSON for one of a message
	maxSignIn  = 4 << 10          // bytes of a body
)

// Headers of answers. Pages load nothing from other hosts, and no other site shows them.
const (
	pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; " +
		"connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	dataPolicy = "default-src 'none'; frame-ancestors 'none'"
)

// homePage is / without pages.
const homePage = `<!DOCTYPE html><html lang="en"><title>AutoSched</title><h1>AutoSched</h1><ul>
<li><a href="/openapi.json">/openapi.json</a>: the API as HTTP and JSON, whose paths begin with
<a href="/v1/schedulers">/v1</a></li>
<li><a href="/metrics">/metrics</a>: metrics for Prometheus</li>
<li><a href="/healthz">/healthz</a>: the process lives</li>
<li><a href="/readyz">/readyz</a>: configurations are served</li>
<li><a href="/readyz/tuning">/readyz/tuning</a>: events are taken in, and rounds run</li></ul>
`

// web serves HTTP: the API as JSON, sign-in, pages, metrics and probes. A caller has the rights that it has by gRPC.
type web struct {
	server   *Server
	sessions *access.Sessions // nil if callers are not identified
	relay    *relay
	paths    http.Handler
	callers  callers
	kept     connections
}

func newWeb(s *Server, o *Options) *web {
	h := &web{server: s, relay: &relay{server: s, listener: bufconn.Listen(1 << 20)}}
	if o.Access != nil && o.Access.Identifies() {
		h.sessions = access.NewSessions(o.Access)
	}
	api, err := rest.New(rest.Options{Conn: h.relay, Admit: h.admit, Body: jsonBytes * o.Limits.Message,
		BodyTimeout: webTimeout, Metadata: func(header string) (string, bool) {
			switch key := strings.ToLower(header); key {
			case requestIDHeader, relayKey, "autosched-reason-bin", "traceparent":
				return key, true
			}
			return "", false
		}})
	if err != nil {
		panic(fmt.Sprintf("server: paths of the API: %v", err)) // they are generated
	}
	mux := http.NewServeMux()
	mux.Handle("/v1/", h.identified(api))
	mux.HandleFunc("GET /session", h.whoAmI)
	mux.HandleFunc("POST /session", h.signIn)
	mux.HandleFunc("DELETE /session", h.signOut)
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(rest.OpenAPI)
	})
	h.addOperations(mux)
	if o.Pages != nil {
		mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet && r.Method != http.MethodHead {
				rest.Error(w, http.StatusMethodNotAllowed, status.Error(codes.Unimplemented, "pages are only read"))
				return
			}
			o.Pages.ServeHTTP(w, r)
		})
	} else {
		mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, homePage)
		})
	}
	h.paths = mux
	return h
}

// Web is the HTTP handler of the service: /v1 has the API as JSON, for which a caller needs the rights that it needs by
// gRPC; /session signs callers in; /metrics is for Prometheus and asks for a role that reads; /healthz answers while
// the process lives, /readyz fails once the server is shutting down, and /readyz/tuning fails also until events are
// taken in and while they cannot be stored. Both name the failing checks. All else are pages.
func (s *Server) Web() http.Handler {
	if s.gated {
		return forward.Handler(s.web)
	}
	return s.web
}

// ServeHTTP checks for other sites, and bounds the time of answers.
func (h *web) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	w = &patient{w, control}
	if r.ContentLength != 0 { // of a body that no handler reads, too
		_ = control.SetReadDeadline(time.Now().Add(webTimeout))
	}
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Content-Security-Policy", pagePolicy)
	if strings.HasPrefix(r.URL.Path, "/v1/") || r.URL.Path == "/session" {
		header.Set("Content-Security-Policy", dataPolicy)
		header.Set("Cache-Control", "no-store")
		if err := sameSite(r); err != nil {
			rest.Error(w, 0, err)
			return
		}
	}
	if err := h.known(r); err != nil {
		rest.Error(w, http.StatusMisdirectedRequest, err)
		return
	}
	h.paths.ServeHTTP(w, r)
}

// known refuses names that another site may have let point to this host, where every caller may do anything.
func (h *web) known(r *http.Request) error {
	at, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if h.sessions != nil || at == nil || !at.IP.IsLoopback() {
		return nil
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback() {
		return nil
	}
	return status.Errorf(codes.PermissionDenied, "host %.80q is not this one: call 127.0.0.1 or localhost", r.Host)
}

// sameSite refuses requests that a page of another site makes, reads too. Programs send none of the headers.
func sameSite(r *http.Request) error {
	change := *r
	change.Method = http.MethodPost // reads would pass
	if new(http.CrossOriginProtection).Check(&change) != nil {
		return status.Error(codes.PermissionDenied, "a page of another site asks")
	}
	return nil
}

// identify finds a request's caller by a token, the session of its cookie, or a certificate. A certificate also counts
// beside the cookie of a session that has ended: the connection still proves it.
func (h *web) identify(r *http.Request) (c access.Caller, by access.Credential, session *access.Session, err error) {
	var ended error
	cookie, none := r.Cookie(cookieName(r))
	if r.Header.Get("Authorization") == "" && none == nil && h.sessions != nil {
		if session, ended = h.sessions.Find(cookie.Value); ended == nil {
			return session.Caller, session.Credential, session, nil
		}
	}
	if by, err = access.NewCredential(r.TLS, strings.Join(r.Header.Values("Authorization"), ",")); err == nil {
		c, err = h.server.guard.identify(by)
	}
	if err != nil && ended != nil {
		err = ended // there is nothing else
	}
	return c, by, nil, err
}

// maxRequests bounds the requests of a caller that are under way, watches among them, below the connections of all.
const maxRequests = 500

// callers count the requests of each caller that are under way.
type callers struct {
	mu sync.Mutex
	n  map[string]int
}

// enter counts a request, unless there are maxRequests of the caller.
func (c *callers) enter(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n[name] >= maxRequests {
		return false
	}
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[name]++
	return true
}

func (c *callers) leave(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n[name]--; c.n[name] == 0 {
		delete(c.n, name)
	}
}

// maxKept bounds the connections of a caller that are kept for more requests: one caller cannot hold those of all.
const maxKept = 250

// connections are the open ones, by remote address, with their callers once these are known.
type connections struct {
	mu    sync.Mutex
	owner map[string]*string // nil until the caller is known
	n     map[string]int     // by caller
}

// ConnState follows the connections of an http.Server.
func (h *web) ConnState(c net.Conn, state http.ConnState) {
	k, addr := &h.kept, c.RemoteAddr().String()
	k.mu.Lock()
	defer k.mu.Unlock()
	switch state {
	case http.StateNew:
		if k.owner == nil {
			k.owner, k.n = map[string]*string{}, map[string]int{}
		}
		k.owner[addr] = nil
	case http.StateClosed, http.StateHijacked:
		if owner := k.owner[addr]; owner != nil {
			k.drop(*owner)
		}
		delete(k.owner, addr)
	}
}

// drop counts a connection of a caller no more. The caller must hold mu.
func (k *connections) drop(caller string) {
	if k.n[caller]--; k.n[caller] == 0 {
		delete(k.n, caller)
	}
}

// own notes the caller of a connection, and reports whether it has more than are kept. It knows nothing of connections
// that ConnState does not follow.
func (k *connections) own(addr, caller string) (tooMany bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	owner, open := k.owner[addr]
	if !open {
		return false
	}
	if owner == nil || *owner != caller {
		if owner != nil {
			k.drop(*owner)
		}
		k.owner[addr] = &caller
		k.n[caller]++
	}
	return k.n[caller] > maxKept
}

// identified has the handler's calls made with the credential of the request's caller.
func (h *web) identified(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(requestIDHeader)
		if len(r.Header.Values(requestIDHeader)) != 1 || !rpc.IsRequestID(id) {
			id = h.server.newID()
		}
		w.Header().Set(requestIDHeader, id) // of errors, too
		caller, credential, session, err := h.identify(r)
		if err == nil && h.kept.own(r.RemoteAddr, caller.Name) {
			w.Header().Set("Connection", "close")
		}
		if err == nil {
			if !h.callers.enter(caller.Name) {
				err = status.Errorf(codes.ResourceExhausted, "%d requests of the caller are under way: end some",
					maxRequests)
			} else {
				defer h.callers.leave(caller.Name)
			}
		}
		writes := r.Method != http.MethodGet && r.Method != http.MethodHead
		if err == nil && session != nil && writes && r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == "" {
			err = status.Error(codes.PermissionDenied, "a change by a session needs the header Origin")
		}
		if err != nil {
			rest.Error(w, 0, rpc.Describe(rpc.Status(err), r.Method, ""))
			return
		}
		number, forget := h.relay.lend(credential)
		defer forget()
		if session != nil {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			go func() {
				select {
				case <-session.Ended():
					cancel()
				case <-ctx.Done():
				}
			}()
			r = r.WithContext(ctx)
		}
		r = r.Clone(access.WithRequestID(r.Context(), id))
		r.Header.Del("Authorization")
		r.Header.Set(requestIDHeader, id)
		r.Header.Set(relayKey, number) // in place of a caller's
		api.ServeHTTP(w, r)
	})
}

// admit refuses a caller by its role before its request is read.
func (h *web) admit(r *http.Request, method string) error {
	value, ok := h.relay.credentials.Load(r.Header.Get(relayKey))
	if !ok {
		return rpc.Status(access.ErrIdentity)
	}
	guard := h.server.guard
	caller, _, err := guard.admit(method, value.(access.Credential))
	if err == nil {
		return nil
	}
	err = rpc.Status(guard.refused(r.Context(), caller, method, err))
	h.server.metrics.requests.WithLabelValues(path.Base(method), status.Code(err).String()).Inc()
	return rpc.Describe(err, method, "")
}

// whoAmI answers with the caller.
func (h *web) whoAmI(w http.ResponseWriter, r *http.Request) {
	caller, _, session, err := h.identify(r)
	if err != nil {
		rest.Error(w, 0, rpc.Status(err))
		return
	}
	kind := "none"
	switch {
	case session != nil:
		kind = "session"
	case h.sessions != nil && r.Header.Get("Authorization") != "":
		kind = "token"
	case h.sessions != nil:
		kind = "certificate"
	}
	h.describe(w, caller, kind, session)
}

func (h *web) describe(w http.ResponseWriter, c access.Caller, kind string, session *access.Session) {
	answer := struct {
		Name       string   `json:"name,omitempty"`
		Role       string   `json:"role"`
		Scheduler  string   `json:"scheduler,omitempty"`
		Credential string   `json:"credential"`
		ExpireTime string   `json:"expireTime,omitempty"`
		Methods    []string `json:"methods"`
	}{Name: c.Name, Role: string(c.Role), Scheduler: c.Scheduler, Credential: kind}
	if session != nil {
		answer.ExpireTime = session.Expires.UTC().Format(time.RFC3339)
	}
	for method, r := range methodRules {
		if strings.HasPrefix(method, "/"+convert.Package+".") && r.allows(c, c.Scheduler) {
			answer.Methods = append(answer.Methods, path.Base(method))
		}
	}
	slices.Sort(answer.Methods)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the client may be gone
}

// signIn exchanges a token for a cookie.
func (h *web) signIn(w http.ResponseWriter, r *http.Request) {
	if h.sessions == nil {
		h.whoAmI(w, r)
		return
	}
	if media := r.Header.Get("Content-Type"); !strings.HasPrefix(media, "application/json") {
		rest.Error(w, http.StatusUnsupportedMediaType, status.Error(codes.InvalidArgument,
			"sign-in needs the header Content-Type: application/json"))
		return
	}
	var body struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxSignIn)).Decode(&body); err != nil || body.Token == "" {
		rest.Error(w, 0, rpc.Status(convert.Invalid("token", "is required, as in {\"token\":\"...\"}")))
		return
	}
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	id, session, err := h.sessions.SignIn(body.Token, from.Addr())
	switch {
	case errors.Is(err, access.ErrWrongTokens):
		rest.Error(w, 0, rest.Limited(access.WrongEvery, err.Error()))
		return
	case err != nil:
		h.server.log.WarnContext(r.Context(), "sign-in refused", "from", r.RemoteAddr)
		rest.Error(w, 0, rpc.Status(err))
		return
	}
	if old, none := r.Cookie(cookieName(r)); none == nil {
		h.sessions.SignOut(old.Value)
	}
	h.server.log.InfoContext(access.NewContext(r.Context(), session.Caller), "signed in", "from", r.RemoteAddr)
	http.SetCookie(w, h.cookie(r, id, int(access.SessionLife.Seconds())))
	h.describe(w, session.Caller, "session", session)
}

// signOut ends the session of the cookie.
func (h *web) signOut(w http.ResponseWriter, r *http.Request) {
	if cookie, none := r.Cookie(cookieName(r)); none == nil && h.sessions != nil {
		h.sessions.SignOut(cookie.Value)
	}
	http.SetCookie(w, h.cookie(r, "", -1))
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "{}\n")
}

// cookieName has the port, because cookies do not: two services of a host would share one.
func cookieName(r *http.Request) string {
	name := "autosched-0"
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		name = "autosched-" + strconv.Itoa(at.Port)
	}
	if r.TLS != nil {
		return "__Host-" + name
	}
	return name
}

func (h *web) cookie(r *http.Request, value string, age int) *http.Cookie {
	return &http.Cookie{Name: cookieName(r), Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: r.TLS != nil,
		SameSite: http.SameSiteStrictMode}
}

// readers lets requests of callers through that may read.
func (h *web) readers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, _, _, err := h.identify(r)
		if err == nil && !slices.Contains(readerRoles, caller.Role) {
			err = denied(caller, r.URL.Path, readerRoles)
		}
		if err != nil {
			rest.Error(w, 0, rpc.Status(err))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// patient bounds the time of each write of an answer. A reader that does not read is cut off; a stream that has nothing
// to say is not.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Write implements [io.Writer].
func (p *patient) Write(text []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(webTimeout))
	return p.ResponseWriter.Write(text)
}

// FlushError is called by [http.ResponseController.Flush].
func (p *patient) FlushError() error {
	_ = p.control.SetWriteDeadline(time.Now().Add(webTimeout))
	err := p.control.Flush()
	_ = p.control.SetWriteDeadline(time.Time{})
	return err
}

// Unwrap is called by [http.ResponseController].
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }
