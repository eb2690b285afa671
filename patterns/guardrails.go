package patterns

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// GuardrailColumns are the columns that ReadGuardrails reads. The last two may be missing.
const GuardrailColumns = "time,revision,name,value,low,high,applied,demand_outside"

// ReadGuardrails calls f with the measurements of a CSV file as they are read. Times are in RFC 3339, an empty low or
// high is no bound, applied is when the revision was put in force, and demand_outside is 1 if so.
func ReadGuardrails(in io.Reader, f func(*Guardrail) error) error {
	c := csv.NewReader(in)
	c.Comment = '#'
	head, err := c.Read()
	if errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return fmt.Errorf("want the header %s: %w", GuardrailColumns, err)
	}
	columns := strings.Split(GuardrailColumns, ",")
	for i, name := range columns {
		if !slices.Contains(head, name) && i < 6 {
			return fmt.Errorf("the header lacks %s; want %s", name, GuardrailColumns)
		}
	}
	for i, name := range head {
		if !slices.Contains(columns, name) || slices.Contains(head[:i], name) {
			return fmt.Errorf("the header has %q, unknown or twice; want %s", name, GuardrailColumns)
		}
	}
	for {
		fields, err := c.Read()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		line, _ := c.FieldPos(0)
		g, err := guardrailOf(head, fields)
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		if err := f(g); err != nil {
			return err
		}
	}
}

// guardrailOf reads a row.
func guardrailOf(head, fields []string) (*Guardrail, error) {
	g := &Guardrail{Low: math.Inf(-1), High: math.Inf(1)}
	for i, name := range head {
		text := fields[i]
		var err error
		number := func(to *float64) {
			*to, err = strconv.ParseFloat(text, 64)
			if err != nil || math.IsNaN(*to) || math.IsInf(*to, 0) {
				err = fmt.Errorf("%s: %q is not a number", name, text)
			}
		}
		instant := func(to *time.Duration) {
			at, bad := time.Parse(time.RFC3339, text)
			if *to = time.Duration(at.UnixNano()); bad != nil || *to <= 0 {
				err = fmt.Errorf("%s: %q is not an RFC 3339 time such as 2026-01-05T12:00:00Z", name, text)
			}
		}
		switch {
		case text == "" && (name == "low" || name == "high" || name == "applied" || name == "demand_outside"):
		case text == "":
			err = fmt.Errorf("%s: is empty", name)
		case name == "time":
			instant(&g.Time)
		case name == "applied":
			instant(&g.Applied)
		case name == "revision":
			g.Revision = text
		case name == "name":
			g.Name = text
		case name == "value":
			number(&g.Value)
		case name == "low":
			number(&g.Low)
		case name == "high":
			number(&g.High)
		default:
			if g.DemandOutside = text == "1"; text != "1" && text != "0" {
				err = fmt.Errorf("demand_outside: %q is neither 0 nor 1", text)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	if g.Low > g.High {
		return nil, fmt.Errorf("low: %v is above high, %v", g.Low, g.High)
	}
	return g, nil
}
