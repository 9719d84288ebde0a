"""Writes every generated file of the repository: python -m matloom.arch.generate."""

from matloom.arch.generate.files import FILES, ROOT

if __name__ == "__main__":
    for name, make in FILES.items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(make())
        print(path.relative_to(ROOT))
