// Package access decides who a caller of the service is and keeps the files that say so: the server's certificate, the
// authority of client certificates, and the roles file. Package api/server has the rights of roles, beside its
// methods.
//
// The identity of a certificate is its one URI (a SPIFFE ID or any other), as
// issued by SPIRE, cert-manager and `autosched admin certs`. The common name is not
// read: it has no syntax, and two names for one caller would be one too many.
//
// Tokens are kept as SHA-256: a copy of the roles file opens nothing. They are
// random and long, so that a slow hash would protect nothing more.
package access

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Role is the set of methods that a caller may call.
type Role string

// The roles. Admin includes operator, which includes viewer; a scheduler may call the methods of schedulers, for its
// own id alone.
const (
	Viewer    Role = "viewer"
	Scheduler Role = "scheduler"
	Operator  Role = "operator"
	Admin     Role = "admin"
)

// Caller is who calls.
type Caller struct {
	Name      string // in logs; "" if callers are not identified
	Role      Role
	Scheduler string // the id, for role Scheduler
}

// Roles are the callers of a roles file.
type Roles struct {
	byURI  map[string]Caller
	tokens []token
}

type token struct {
	sum    [sha256.Size]byte
	caller Caller
}

// maxRoles bounds a roles file, in bytes.
const maxRoles = 1 << 20

var callerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// entry is a caller of the roles file.
type entry struct {
	Name      string   `yaml:"name"`
	Role      Role     `yaml:"role"`
	Scheduler string   `yaml:"scheduler"`
	URIs      []string `yaml:"uris"`
	Tokens    []string `yaml:"token_sha256"`
}

// ParseRoles reads a roles file:
//
//	callers:
//	  - name: alice
//	    role: operator
//	    uris: [spiffe://example.org/alice]
//	  - name: prod
//	    role: scheduler
//	    scheduler: prod
//	    token_sha256: [2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae]
//
// Unknown fields, identities of two callers and callers without an identity are
// errors.
func ParseRoles(text []byte) (*Roles, error) {
	if len(text) > maxRoles {
		return nil, fmt.Errorf("is larger than %d MiB", maxRoles>>20)
	}
	var file struct {
		Callers []entry `yaml:"callers"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := d.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("has more than one document")
	}
	if len(file.Callers) == 0 {
		return nil, errors.New("has no callers: name at least one under callers")
	}
	lines := callerLines(text)
	r := &Roles{byURI: map[string]Caller{}}
	names := map[string]bool{}
	for i, e := range file.Callers {
		err := r.add(e)
		if err == nil && names[e.Name] {
			err = fmt.Errorf("name: %q is another caller's, too", e.Name)
		}
		names[e.Name] = true
		if err != nil {
			if i < len(lines) {
				return nil, fmt.Errorf("line %d: callers[%d].%w", lines[i], i, err)
			}
			return nil, fmt.Errorf("callers[%d].%w", i, err)
		}
	}
	return r, nil
}

// callerLines are the lines at which the callers begin.
func callerLines(text []byte) []int {
	var file struct {
		Callers []yaml.Node `yaml:"callers"`
	}
	if yaml.Unmarshal(text, &file) != nil {
		return nil
	}
	lines := make([]int, len(file.Callers))
	for i := range file.Callers {
		lines[i] = file.Callers[i].Line
	}
	return lines
}

func (r *Roles) add(e entry) error {
	c := Caller{Name: e.Name, Role: e.Role, Scheduler: e.Scheduler}
	switch {
	case !callerName.MatchString(e.Name):
		return fmt.Errorf("name: %q is not 1 to 64 letters, digits and ._@-, beginning with a letter or digit", e.Name)
	case e.Role != Viewer && e.Role != Scheduler && e.Role != Operator && e.Role != Admin:
		return fmt.Errorf("role: %q is not viewer, scheduler, operator or admin", e.Role)
	case e.Role == Scheduler && (e.Scheduler == "" || strings.Contains(e.Scheduler, "/")):
		return fmt.Errorf("scheduler: %q is not the id of the scheduler that the caller is, such as prod", e.Scheduler)
	case e.Role != Scheduler && e.Scheduler != "":
		return fmt.Errorf("scheduler: counts only for role scheduler, not for %s", e.Role)
	case len(e.URIs)+len(e.Tokens) == 0:
		return errors.New("uris: is missing, and so is token_sha256: the caller has no identity")
	}
	for i, text := range e.URIs {
		u, err := url.Parse(text)
		if err != nil || u.Scheme == "" || u.String() != text {
			return fmt.Errorf("uris[%d]: %q is not a URI such as spiffe://example.org/alice", i, text)
		}
		if _, taken := r.byURI[text]; taken {
			return fmt.Errorf("uris[%d]: %q is there twice", i, text)
		}
		r.byURI[text] = c
	}
	for i, text := range e.Tokens {
		sum, err := hex.DecodeString(text)
		if err != nil || len(sum) != sha256.Size {
			return fmt.Errorf("token_sha256[%d]: is not 64 hexadecimal digits, the SHA-256 of a token", i)
		}
		t := token{[sha256.Size]byte(sum), c}
		if _, taken := r.token(t.sum); taken {
			return fmt.Errorf("token_sha256[%d]: is there twice", i)
		}
		r.tokens = append(r.tokens, t)
	}
	return nil
}

// token finds a token by its hash, in a time that depends on the number of tokens
// alone.
func (r *Roles) token(sum [sha256.Size]byte) (c Caller, found bool) {
	for i := range r.tokens {
		if subtle.ConstantTimeCompare(r.tokens[i].sum[:], sum[:]) == 1 {
			c, found = r.tokens[i].caller, true
		}
	}
	return c, found
}
