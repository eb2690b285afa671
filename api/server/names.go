package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/autosched/autosched/controller"
)

const (
	schedulersPrefix      = "schedulers/"
	configurationsSegment = "/configurations/"
)

var schedulerID = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// CheckID says what is wrong with the id of a scheduler.
func CheckID(id string) error {
	if !schedulerID.MatchString(id) {
		return fmt.Errorf("%q is not 1 to 63 of a-z, 0-9 and '-', starting with a letter and not ending with '-'", id)
	}
	if id == strings.Trim(configurationsSegment, "/") {
		return fmt.Errorf("%q is reserved", id)
	}
	return nil
}

func schedulerName(id string) string { return schedulersPrefix + id }

func configurationName(id string, revision int64) string {
	return schedulersPrefix + id + configurationsSegment + strconv.FormatInt(revision, 10)
}

// parseScheduler reads schedulers/{scheduler}.
func parseScheduler(field, name string) (string, error) {
	if id, ok := strings.CutPrefix(name, schedulersPrefix); ok && schedulerID.MatchString(id) {
		return id, nil
	}
	return "", invalid(field, "%q is not of the form schedulers/{scheduler}", name)
}

func schedulerRevisionName(id string, revision int64) string {
	return schedulerName(id) + "@" + strconv.FormatInt(revision, 10)
}

// parseSchedulerRevision reads schedulers/{scheduler}@{revision}.
func parseSchedulerRevision(field, name string) (id string, revision int64, err error) {
	parent, number, _ := strings.Cut(name, "@")
	revision, err = strconv.ParseInt(number, 10, 64)
	if id, bad := parseScheduler(field, parent); bad == nil && err == nil && revision > 0 &&
		schedulerRevisionName(id, revision) == name {
		return id, revision, nil
	}
	return "", 0, invalid(field, "%q is not of the form schedulers/{scheduler}@{revision}", name)
}

// parseConfiguration reads schedulers/{scheduler}/configurations/{revision}. A
// revision has one name: 007 and +7 are none.
func parseConfiguration(field, name string) (string, int64, error) {
	parent, rev, ok := strings.Cut(name, configurationsSegment)
	revision, err := strconv.ParseInt(rev, 10, 64)
	if id, idOK := strings.CutPrefix(parent, schedulersPrefix); ok && idOK && schedulerID.MatchString(id) &&
		err == nil &&
		revision > 0 && strconv.FormatInt(revision, 10) == rev {
		return id, revision, nil
	}
	return "", 0, invalid(field, "%q is not of the form schedulers/{scheduler}/configurations/{revision}", name)
}

const defaultPage, maxPage = 50, 1000

// pageSize bounds what a list was asked for.
func pageSize(n int32) (int, error) {
	switch {
	case n < 0:
		return 0, invalid("page_size", "%d is negative", n)
	case n == 0:
		return defaultPage, nil
	}
	return min(int(n), maxPage), nil
}

// token is a place in a list or a watch. Callers treat its text as opaque.
type token struct {
	Of       string `json:"o,omitempty"` // the uid of a watch's scheduler
	After    string `json:"a,omitempty"` // the last id listed
	Revision int64  `json:"r,omitempty"` // the last revision listed or sent
	// Epoch is that of a watch.
	Epoch controller.Epoch `json:"e,omitzero"`
}

func (t token) marshal() []byte {
	b, err := json.Marshal(t)
	if err != nil {
		panic("server: token does not marshal: " + err.Error())
	}
	return b
}

func (t token) String() string { return base64.RawURLEncoding.EncodeToString(t.marshal()) }

// parseToken reads a token made for the same watch; the zero token if there is no text.
func parseToken(field, text, of string) (t token, err error) {
	if text == "" {
		return t, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(b, &t) != nil || t.Revision < 0 {
		return t, invalid(field, "is not one that this service gave")
	}
	if t.Of != of {
		return t, invalid(field, "belongs to another request")
	}
	return t, nil
}

// pager is the secret by which tokens of pages are known to be the service's, and of the same request.
type pager []byte

// sum is the signature of a place in the list that a request asks for, whatever page of it.
func (k pager) sum(req listRequest, place []byte) []byte {
	content := proto.Clone(req)
	m := content.ProtoReflect()
	for _, of := range []protoreflect.Name{"page_size", "page_token"} {
		m.Clear(m.Descriptor().Fields().ByName(of))
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(content)
	if err != nil {
		panic("server: a request does not marshal: " + err.Error())
	}
	mac := hmac.New(sha256.New, k)
	for _, part := range [][]byte{[]byte(m.Descriptor().FullName()), text, place} {
		fmt.Fprintf(mac, "%d ", len(part))
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// next is the text of the token of the page that follows a place.
func (k pager) next(req listRequest, t token) string {
	place := t.marshal()
	return base64.RawURLEncoding.EncodeToString(append(k.sum(req, place), place...))
}

// after is the place that the page of a request follows, the zero token for the first page.
func (k pager) after(req listRequest) (t token, err error) {
	if req.GetPageToken() == "" {
		return t, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(req.GetPageToken())
	if err == nil && len(b) > sha256.Size {
		place := b[sha256.Size:]
		if hmac.Equal(b[:sha256.Size], k.sum(req, place)) && json.Unmarshal(place, &t) == nil {
			return t, nil
		}
	}
	return token{}, invalid("page_token", "is not one that this service gave for this request, whose other fields "+
		"stay the same from page to page: list again without it")
}
