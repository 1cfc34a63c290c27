# SPDX-License-Identifier: Apache-2.0
# What was measured against what was wanted, as a table, JSON and a page.
import html
import json
import os
import time

STYLE = ("body{font:16px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em}table{border-collapse:collapse}"
         "th,td{border:1px solid #aaa;padding:.3em .6em;text-align:left}.MISS{color:#b00}.PASS{color:#070}")


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return "unknown processor"


class Results:
    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.machine = {"processor": processor(), "cores": len(os.sched_getaffinity(0)),
                        "load_at_the_start": os.getloadavg()[0], "date": time.strftime("%Y-%m-%d")}
        self.rows, self.runs = [], []

    def target(self, what, wanted, measured, passed):
        """`passed`: None if it was not measured, `measured` then says why."""
        row = {"what": what, "wanted": wanted, "measured": measured,
               "outcome": "SKIP" if passed is None else "PASS" if passed else "MISS",
               "load": os.getloadavg()[0]}
        self.rows.append(row)
        print(f"{row['outcome']} {what}: {measured} (wanted: {wanted})", flush=True)

    def run(self, name, command, seconds):
        """A run that wrote a report into a folder of this name."""
        self.runs.append({"name": name, "command": command, "seconds": seconds})

    def missed(self):
        return any(row["outcome"] == "MISS" for row in self.rows)

    def machine_text(self):
        return (f"{self.machine['processor']}, {self.machine['cores']} cores, load {self.machine['load_at_the_start']:.1f} "
                f"when it began, {self.machine['date']}")

    def table(self):
        lines = [self.machine_text(), "", "| | target | wanted | measured | load |", "|---|---|---|---|---|"]
        return "\n".join(lines + [f"| {row['outcome']} | {row['what']} | {row['wanted']} | {row['measured']} | "
                                  f"{row['load']:.1f} |" for row in self.rows])

    def write(self):
        with open(os.path.join(self.folder, "results.json"), "w", encoding="utf-8") as file:
            json.dump({"machine": self.machine, "targets": self.rows, "runs": self.runs}, file, indent=1)
        with open(os.path.join(self.folder, "summary.md"), "w", encoding="utf-8") as file:
            file.write(self.table() + "\n")
        cells = "".join("<tr>" + "".join(f'<td class="{row["outcome"]}">{html.escape(str(row[key]))}</td>'
                                         for key in ("outcome", "what", "wanted", "measured")) + "</tr>\n"
                        for row in self.rows)
        links = "".join(f'<li><a href="{run["name"]}/report.html">{html.escape(run["name"])}</a>, {run["seconds"]:.1f} s: '
                        f"<code>{html.escape(run['command'])}</code></li>\n" for run in self.runs)
        with open(os.path.join(self.folder, "index.html"), "w", encoding="utf-8") as file:
            file.write(f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/><title>Trainings</title>'
                       f"<style>{STYLE}</style></head><body>\n<h1>Trainings</h1>\n<p>{html.escape(self.machine_text())}</p>"
                       f"\n<table>\n<tr><th></th><th>target</th><th>wanted</th><th>measured</th></tr>\n{cells}</table>\n"
                       f"<h2>Runs</h2>\n<ul>\n{links}</ul>\n</body></html>\n")
