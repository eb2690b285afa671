package paper

// Figure is a figure or table of the paper with what is measured for it.
type Figure struct {
	// ID is the paper's number, such as 9 or table-3; Title names the figure.
	ID, Title string
	// Claim is the paper's number.
	Claim string
	// Experiments are the files of results that it is drawn from.
	Experiments []string
	// Missing is why it is not built; empty if it is.
	Missing string
}

// Figures are in the order of the page.
var Figures []Figure

func findFigure(id string) *Figure {
	for i := range Figures {
		if Figures[i].ID == id {
			return &Figures[i]
		}
	}
	return nil
}

// FigureIDs are the names of the figures and tables.
func FigureIDs() (out []string) {
	for i := range Figures {
		out = append(out, Figures[i].ID)
	}
	return out
}
