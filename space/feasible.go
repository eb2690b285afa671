package space

import "strings"

// checkDefault sets the default configuration and checks it: it must obey every rule, so
// that projection always has a result. If it does not, the error names the valid
// configuration that is near, if one is found.
func (s *Space) checkDefault(v *Violations) {
	defaults := make([]Value, len(s.params))
	for i := range s.params {
		defaults[i] = s.params[i].Default
	}
	values := make([]Value, len(s.params))
	for _, u := range s.units {
		for _, i := range u.params {
			if s.isActive(i, values) {
				values[i] = defaults[i]
			}
		}
	}
	s.initial = Config{space: s, values: values}
	err := s.Check(s.initial)
	if err == nil {
		return
	}
	for _, one := range err.(Violations) {
		v.add("default", "%s: %s", one.Field, one.Description)
	}
	values, why := s.settle(defaults)
	if broken := s.firstBroken(values); broken >= 0 {
		values, _, _ = s.applyBroken(defaults, values, why, broken)
	}
	if values == nil || s.Check(Config{space: s, values: values}) != nil {
		return
	}
	var parts []string
	for i, x := range values {
		if !x.IsZero() && !x.Equal(defaults[i]) {
			parts = append(parts, s.params[i].ID+"="+s.params[i].Format(x))
		}
	}
	(*v)[len(*v)-1].Description += "; these defaults would do: " + strings.Join(parts, " ")
}
