package iceberg

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"sluice/internal/metadata"
	"sluice/internal/parquetfile"
)

// Finding is something that Check found wrong.
type Finding struct {
	Table   string `json:"table"`
	File    string `json:"file"`    // where it lies
	Problem string `json:"problem"` // never a value of a row
}

// Checked is what Check looked at.
type Checked struct {
	Files, Manifests int
	Rows             int64
	Findings         int
}

// Check reads every manifest and every page of every file that a kept snapshot lists, and hands what is damaged to
// found: what does not match its checksum, and what has other rows than the manifest counts. progress is called after
// each file.
func (t *table) Check(
	ctx context.Context, found func(Finding), progress func(done, total int),
) (out Checked, err error) {
	report := func(name, problem string) {
		out.Findings++
		found(Finding{t.layout.name, t.store.Path(name), problem})
	}
	files, err := t.checkMetadata(ctx, &out, report)
	if err != nil {
		return out, err
	}
	for i, f := range files {
		opened, err := t.checkFile(ctx, f)
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		switch {
		case err == nil:
			out.Rows += f.rows
			out.Files++
		case errors.Is(err, fs.ErrNotExist):
			report(f.name, "missing")
		case !opened:
			report(f.name, "not read: it cannot be opened, so nobody knows what it holds")
		default:
			report(f.name, "damaged: "+err.Error())
			out.Files++
		}
		progress(i+1, len(files))
	}
	return out, nil
}

// checkMetadata checks what lists files, and returns those that are listed.
func (t *table) checkMetadata(
	ctx context.Context, out *Checked, report func(name, problem string),
) ([]*dataFile, error) {
	s, err := t.refresh(ctx)
	if err != nil {
		return nil, err
	}
	if s.read != s.version {
		report(metadata.Name(s.version), "this version is damaged; an older one is in use until the next commit")
	}
	// Else it was moved or copied, and whoever opens it to write corrects that.
	here := s.meta.Location == t.store.Location("")
	var files []*dataFile
	seen := map[string]bool{} // manifests and files
	known := s.manifests
	for i := range s.meta.Snapshots {
		list, err := t.readList(ctx, &s.meta.Snapshots[i], known)
		if err != nil {
			name, _ := below(s.meta.Snapshots[i].ManifestList, metadata.Dir)
			report(name, err.Error())
			continue
		}
		for _, m := range list {
			if seen[m.name] {
				continue
			}
			seen[m.name] = true
			out.Manifests++
			if m.damaged != nil {
				report(m.name, m.damaged.Error())
			}
			if here && m.file.FilePath() != t.store.Location(m.name) {
				report(m.name, "a list has another location for this manifest")
			}
			known = append(slices.Clip(known), m)
			for _, f := range m.files {
				if !seen[f.name] {
					seen[f.name] = true
					files = append(files, f)
				}
			}
		}
	}
	return files, nil
}

// checkFile reads every page of a file. It says whether it could be opened, and why it cannot be read, or that counts
// differ.
func (t *table) checkFile(ctx context.Context, p *dataFile) (opened bool, err error) {
	o, err := t.store.Open(ctx, p.name)
	if err != nil {
		return false, err
	}
	defer o.Close()
	return true, parquetfile.Check(o, p.bytes, p.rows)
}
