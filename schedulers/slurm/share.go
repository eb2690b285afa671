package slurm

import (
	"cmp"
	"math"
	"slices"

	"github.com/autosched/autosched/workload"
)

// association is an account, or a user within one, with its usage.
type association struct {
	name, user string
	parent     int32 // -1 of the root
	shares     float64
	children   []int32
	usage      float64 // decayed billing seconds, its children's included
	rank       int32   // of a user, by fair tree
	factor     float64 // of a user, from 0 to 1
}

// shares is the tree of associations, with the shares and the usage of each.
// src/plugins/priority/multifactor: priority_multifactor.c, fair_tree.c.
type shares struct {
	tree   []association // the root first, parents before children
	index  map[[2]string]int32
	users  int
	filled []int64 // by association: billing nanoseconds of the present period
	fresh  bool    // the factors match the usage
}

func (s *shares) reset(accounts []workload.Account) {
	s.tree = append(s.tree[:0], association{parent: -1, shares: 1})
	s.users, s.fresh = 0, false
	if s.index == nil {
		s.index = map[[2]string]int32{}
	}
	clear(s.index)
	s.index[[2]string{}] = 0
	for _, a := range accounts {
		s.add(a)
	}
}

func (s *shares) add(a workload.Account) int32 {
	key := [2]string{a.Name, a.User}
	if i, ok := s.index[key]; ok {
		return i
	}
	above := [2]string{a.Parent, ""}
	if a.User != "" {
		above = [2]string{a.Name, ""}
	}
	parent, ok := s.index[above]
	if !ok {
		parent = s.add(workload.Account{Name: above[0], Shares: 1})
	}
	i := int32(len(s.tree))
	s.tree = append(s.tree, association{name: a.Name, user: a.User, parent: parent, shares: a.Shares})
	s.tree[parent].children = append(s.tree[parent].children, i)
	s.index[key] = i
	if a.User != "" {
		s.users++
	}
	s.fresh = false
	return i
}

// of returns the association of a user in an account; one that is not in the tree gets a share of 1.
func (s *shares) of(account, user string) int32 {
	if user == "" {
		user = " " // an account's jobs without a user belong to one
	}
	return s.add(workload.Account{Name: account, User: user, Shares: 1})
}

// charge adds billing units times nanoseconds to the present period. Whole numbers make the order
// of jobs irrelevant.
func (s *shares) charge(user int32, used int64) {
	s.filled = longer(s.filled, len(s.tree))
	s.filled[user] += used
}

// tick ends a period: the usage before it decays, and the charges of the period are added.
// decay_apply_new_usage in priority_multifactor.c.
func (s *shares) tick(decay float64) {
	s.filled = longer(s.filled, len(s.tree))
	for i := len(s.tree) - 1; i >= 0; i-- {
		a := &s.tree[i]
		a.usage = a.usage*decay + float64(s.filled[i])/1e9
		if i > 0 {
			s.filled[a.parent] += s.filled[i]
		}
		s.filled[i] = 0
	}
	s.fresh = false
}

// longer extends a slice by zero values.
func longer[T any](s []T, n int) []T {
	if k := n - len(s); k > 0 {
		s = append(s, make([]T, k)...)
	}
	return s
}

// level is a child's part of the shares of its parent over its part of the usage; the higher, the more it is owed.
func (s *shares) level(i int32) float64 {
	a := &s.tree[i]
	switch {
	case a.shares == 0:
		return 0
	case a.usage == 0:
		return math.Inf(1)
	}
	return s.part(a) / (a.usage / s.tree[a.parent].usage)
}

// part is the part that an association has of the shares of its siblings and its own.
func (s *shares) part(a *association) float64 {
	all := 0.0
	for _, c := range s.tree[a.parent].children {
		all += s.tree[c].shares
	}
	return share(a.shares, all)
}

// fairTree ranks the users: the children of the root by level, depth first. The first of n
// users gets n/n, the last 1/n; equal ones keep the rank. The children of equal accounts are
// ranked together. _calc_tree_fs in fair_tree.c.
func (s *shares) fairTree() {
	if s.fresh {
		return
	}
	s.fresh = true
	rank, next := int32(s.users), int32(s.users)
	s.walk(slices.Clone(s.tree[0].children), &rank, &next, false)
}

func (s *shares) walk(siblings []int32, rank, next *int32, tied bool) {
	levels := make(map[int32]float64, len(siblings))
	for _, c := range siblings {
		levels[c] = s.level(c)
	}
	slices.SortFunc(siblings, func(a, b int32) int {
		return cmp.Or(cmp.Compare(levels[b], levels[a]), // users before accounts
			cmp.Compare(min(1, len(s.tree[b].user)), min(1, len(s.tree[a].user))), cmp.Compare(a, b))
	})
	for i := 0; i < len(siblings); i++ {
		c := siblings[i]
		if i > 0 {
			tied = levels[c] == levels[siblings[i-1]]
		}
		if s.tree[c].user != "" {
			if !tied {
				*rank = *next
			}
			s.tree[c].rank = *rank
			s.tree[c].factor = float64(*rank) / float64(s.users)
			*next--
			continue
		}
		children := slices.Clone(s.tree[c].children)
		for i+1 < len(siblings) && levels[siblings[i+1]] == levels[c] { // users came before
			i++
			children = append(children, s.tree[siblings[i]].children...)
		}
		s.walk(children, rank, next, tied)
	}
}

// classic gives each user 2^-(U/S): its part of all usage, with a share of the usage of its accounts
// beyond it, over its part of all shares. priority_p_calc_fs_factor and
// set_usage_efctv in priority_multifactor.c.
func (s *shares) classic(dampening float64) {
	if s.fresh {
		return
	}
	s.fresh = true
	total := s.tree[0].usage
	norm, effective := make([]float64, len(s.tree)), make([]float64, len(s.tree))
	norm[0], effective[0] = 1, 1
	for i := 1; i < len(s.tree); i++ {
		a := &s.tree[i]
		part, own := s.part(a), share(a.usage, total)
		norm[i] = norm[a.parent] * part
		effective[i] = own
		if a.parent != 0 {
			effective[i] = own + (effective[a.parent]-own)*part
		}
		if a.factor = 0; norm[i] > 0 {
			a.factor = math.Exp2(-(effective[i] / norm[i]) / dampening)
		}
	}
}
