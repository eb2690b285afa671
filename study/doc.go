// Package study is the state machine of studies: a search of a space whose trials are measured by
// clients, by ask and tell. It is pure: [Step] takes a state, an event and a time and returns the state
// after the event and the trials that changed. Making them durable and assigning ids is up to the caller.
// An [Engine] proposes the next measurements; it has the search behind it; it can be made again
// from a state at any time.
//
// The words are Vizier's (Golovin et al., "Google Vizier: a service for black-box optimization",
// KDD 2017). A trial that a client holds has a lease. If it expires, the trial is STALE and its
// configuration is proposed again; a result that comes later still counts.
package study
