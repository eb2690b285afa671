package access

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Bounds of sessions.
const (
	SessionIdle = time.Hour        // without a request, after which one ends
	SessionLife = 12 * time.Hour   // of one, whatever its requests
	WrongEvery  = 12 * time.Second // one more wrong token from an address

	maxSessions  = 1000 // of all callers
	maxOfCaller  = 20
	wrongTokens  = 5    // in a row from an address
	maxAddresses = 1000 // that are remembered for wrong tokens
)

// ErrWrongTokens is the error of a sign-in from an address that sent too many wrong tokens.
var ErrWrongTokens = errors.New("too many wrong tokens from this address")

// Session is a caller that signed in.
type Session struct {
	Caller     Caller
	Credential Credential // that it signed in with: each request is identified by it again
	Expires    time.Time  // the latest end

	used  time.Time
	ended chan struct{}
}

// Ended is closed at the end of the session.
func (s *Session) Ended() <-chan struct{} { return s.ended }

// Sessions are the callers that signed in with a token of the roles file, in memory. A session ends when it expires,
// when its caller signs out, and when the roles file has its token no more or gives it another role.
type Sessions struct {
	source *Source

	mu    sync.Mutex
	open  map[[sha256.Size]byte]*Session // by the hash of the id
	wrong map[netip.Prefix]*rate.Limiter // tokens, by address
}

// NewSessions returns sessions that Source's Run reviews.
func NewSessions(source *Source) *Sessions {
	s := &Sessions{source: source, open: map[[sha256.Size]byte]*Session{}, wrong: map[netip.Prefix]*rate.Limiter{}}
	source.After(s.review)
	return s
}

// SignIn exchanges a token for the id of a session. After wrong tokens from the address it fails with ErrWrongTokens,
// and another one may come after WrongEvery.
func (s *Sessions) SignIn(token string, from netip.Addr) (id string, session *Session, err error) {
	credential, err := NewCredential(nil, "Bearer "+token)
	if err != nil {
		return "", nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.source.now()
	wrong := s.limiter(from, now)
	if wrong.TokensAt(now) < 1 {
		return "", nil, ErrWrongTokens
	}
	caller, err := s.source.Identify(credential)
	if err != nil {
		wrong.AllowN(now, 1)
		return "", nil, err
	}
	s.makeRoom(caller, now)
	id = rand.Text() + rand.Text()
	session = &Session{Caller: caller, Credential: credential, Expires: now.Add(SessionLife), used: now,
		ended: make(chan struct{})}
	s.open[sha256.Sum256([]byte(id))] = session
	return id, session, nil
}

// limiter is that of an address's network. When there are too many, the rest share one.
func (s *Sessions) limiter(from netip.Addr, now time.Time) *rate.Limiter {
	bits := 32
	if from = from.Unmap(); from.Is6() {
		bits = 64
	}
	network, _ := from.Prefix(bits) // the zero prefix for no address
	if l := s.wrong[network]; l != nil {
		return l
	}
	if len(s.wrong) >= maxAddresses {
		for of, l := range s.wrong {
			if l.TokensAt(now) >= wrongTokens {
				delete(s.wrong, of)
			}
		}
		if len(s.wrong) >= maxAddresses {
			network = netip.Prefix{}
		}
	}
	if s.wrong[network] == nil {
		s.wrong[network] = rate.NewLimiter(rate.Every(WrongEvery), wrongTokens)
	}
	return s.wrong[network]
}

// makeRoom ends expired sessions, and the oldest where there are too many.
func (s *Sessions) makeRoom(c Caller, now time.Time) {
	var all, own [][sha256.Size]byte
	for id, one := range s.open {
		if one.expired(now) {
			s.end(id)
			continue
		}
		all = append(all, id)
		if one.Caller == c {
			own = append(own, id)
		}
	}
	older := func(a, b [sha256.Size]byte) int { return s.open[a].Expires.Compare(s.open[b].Expires) }
	switch {
	case len(own) >= maxOfCaller:
		s.end(slices.MinFunc(own, older))
	case len(all) >= maxSessions:
		s.end(slices.MinFunc(all, older))
	}
}

func (s *Session) expired(now time.Time) bool {
	return !now.Before(s.Expires) || now.Sub(s.used) >= SessionIdle
}

// end needs the lock.
func (s *Sessions) end(id [sha256.Size]byte) {
	if one := s.open[id]; one != nil {
		close(one.ended)
		delete(s.open, id)
	}
}

// Find returns the session of an id and notes a use of it.
func (s *Sessions) Find(id string) (*Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sha256.Sum256([]byte(id))
	one := s.open[key]
	if one == nil || !s.valid(one) {
		s.end(key)
		return nil, fmt.Errorf("%w: the session ended: sign in", ErrIdentity)
	}
	one.used = s.source.now()
	return one, nil
}

func (s *Sessions) valid(one *Session) bool {
	caller, err := s.source.Identify(one.Credential)
	return err == nil && caller == one.Caller && !one.expired(s.source.now())
}

// SignOut ends the session of an id.
func (s *Sessions) SignOut(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(sha256.Sum256([]byte(id)))
}

func (s *Sessions) review() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, one := range s.open {
		if !s.valid(one) {
			s.end(id)
		}
	}
}
