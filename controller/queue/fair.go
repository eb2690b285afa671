package queue

// shares divide a resource between owners by start-time fair queueing (Goyal, Vin, Cheng:
// Start-time Fair Queueing, SIGCOMM 1996). An owner's tag is the time it used over its weight; the
// lowest tag is served next. An owner that comes back has the tag of served ones, so that
// idle time is no credit. Once no owner has a job, all begin anew at the highest tag.
type shares struct {
	owners map[string]*share
	tag    float64 // of the owner served last
}

type share struct {
	weight, tag float64
	jobs        int
}

// join adds a job of an owner, whose weight is above 0.
func (s *shares) join(owner string, weight float64) {
	o := s.owners[owner]
	if o == nil {
		o = &share{}
		s.owners[owner] = o
	}
	if o.jobs == 0 {
		o.tag = max(o.tag, s.tag)
	}
	o.weight = weight
	o.jobs++
}

// leave removes a job. An owner without jobs is kept only while its tag is above served ones.
func (s *shares) leave(owner string) {
	s.owners[owner].jobs--
	if s.idle() {
		for _, o := range s.owners {
			s.tag = max(s.tag, o.tag)
		}
	}
	for name, o := range s.owners {
		if o.jobs == 0 && o.tag <= s.tag {
			delete(s.owners, name)
		}
	}
}

// idle reports whether no owner has a job.
func (s *shares) idle() bool {
	for _, o := range s.owners {
		if o.jobs > 0 {
			return false
		}
	}
	return true
}

// charge adds time that an owner used.
func (s *shares) charge(owner string, used float64) {
	o := s.owners[owner]
	o.tag += used / o.weight
}

// serve notes that an owner is served.
func (s *shares) serve(owner string) { s.tag = max(s.tag, s.owners[owner].tag) }

// before reports whether a job of one owner is served before one of another.
func (s *shares) before(a, b string) bool { return s.owners[a].tag < s.owners[b].tag }
