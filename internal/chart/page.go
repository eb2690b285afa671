package chart

import (
	"html/template"
	"io"
)

// Page is a self-contained HTML page of text and a picture.
type Page struct {
	Name    string
	Text    string
	Picture *Picture
}

var pageTemplate = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{{.Name}}</title>
<style>
{{.CSS}}body{font-family:system-ui,sans-serif;margin:2em auto;max-width:80em;padding:0 1em;background:var(--card);color:var(--ink)}
svg{width:100%;height:auto}pre{overflow-x:auto;line-height:1.35}
</style>
</head><body><h1>{{.Name}}</h1>
<pre>{{.Text}}</pre>
{{.Image}}
</body></html>
`))

// Write writes the page's HTML.
func (p *Page) Write(w io.Writer) error {
	return pageTemplate.Execute(w, struct {
		*Page
		CSS   template.CSS
		Image template.HTML
	}{p, CSS(), p.Picture.HTML("picture")})
}
