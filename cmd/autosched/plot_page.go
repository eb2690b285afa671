package main

import (
	"bytes"
	"html/template"
	"io"
	"path/filepath"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// canvas is an image that is drawn on and then written.
type canvas interface {
	vg.CanvasSizer
	io.WriterTo
}

// newCanvas is of dots for a .png, of lines for all else.
func newCanvas(path string, width, height vg.Length) canvas {
	if filepath.Ext(path) == ".png" {
		return vgimg.PngCanvas{Canvas: vgimg.New(width, height)}
	}
	return vgsvg.New(width, height)
}

// page is what an HTML file has beside the image.
type page struct {
	Name      string
	Synthetic bool // marked, as wherever such a trace is shown
	Text      string
}

var pageTemplate = template.Must(template.New("").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Name}}</title>
<style>body{font-family:sans-serif;margin:2em auto;max-width:80em;padding:0 1em}svg{width:100%;height:auto}pre{overflow-x:auto;line-height:1.35}</style>
</head><body><h1>{{.Name}}{{if .Synthetic}} (synthetic){{end}}</h1>
<pre>{{.Text}}</pre>
{{.Image}}
</body></html>
`))

// write writes one file that needs no other: the text, then the image.
func (p page) write(out io.Writer, image canvas) error {
	var svg bytes.Buffer
	if _, err := image.WriteTo(&svg); err != nil {
		return err
	}
	b := svg.Bytes()
	if i := bytes.Index(b, []byte("<svg")); i > 0 { // without the XML declaration
		b = b[i:]
	}
	return pageTemplate.Execute(out, struct {
		page
		Image template.HTML // drawn here: the texts in it are escaped
	}{p, template.HTML(b)})
}

// writePlot writes what --plot names: the image alone, or a page with it.
func writePlot(path string, image canvas, p page) error {
	return writeFile(path, "--plot", func(out io.Writer) error {
		if filepath.Ext(path) == ".html" {
			return p.write(out, image)
		}
		_, err := image.WriteTo(out)
		return err
	})
}
