"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, from = document) => Array.from(from.querySelectorAll(selector));

  document.getElementById("theme").addEventListener("click", () => {
    const now = root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    try { localStorage.setItem("smelt-theme", root.dataset.theme); } catch { /* lasts as long as the page */ }
  });

  // Files: a drop fills the input, so that the form itself stays an ordinary one; what was chosen is listed.
  const size = (bytes) => bytes < 1e6 ? `${Math.max(1, Math.round(bytes / 1e3))} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
  all("[data-drop]").forEach((zone) => {
    const input = zone.querySelector("input[type=file]"), list = zone.querySelector(".chosen");
    const show = () => {
      all("img", list).forEach((image) => URL.revokeObjectURL(image.src));
      list.replaceChildren(...Array.from(input.files, (file) => {
        const item = document.createElement("li");
        if (file.type.startsWith("image/")) {
          const image = document.createElement("img");
          image.src = URL.createObjectURL(file);
          image.alt = "";
          item.append(image);
        }
        item.append(`${file.name}, ${size(file.size)}`);
        return item;
      }));
    };
    input.addEventListener("change", show);
    const over = (event) => { event.preventDefault(); zone.classList.add("over"); };
    zone.addEventListener("dragenter", over);
    zone.addEventListener("dragover", over);
    zone.addEventListener("dragleave", (event) => {
      if (!zone.contains(event.relatedTarget)) zone.classList.remove("over");
    });
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      zone.classList.remove("over");
      if (!event.dataTransfer.files.length) return;
      const sent = new DataTransfer();
      (input.multiple ? Array.from(event.dataTransfer.files) : [event.dataTransfer.files[0]])
        .forEach((file) => sent.items.add(file));
      input.files = sent.files;
      show();
    });
  });

  // A form that takes a while says so, and is sent once. Coming back with the browser's button makes it usable again.
  all("form").forEach((form) => form.addEventListener("submit", () => {
    const button = form.querySelector("button[data-busy]");
    if (!button) return;
    button.dataset.idle = button.textContent;
    button.textContent = button.dataset.busy;
    setTimeout(() => { button.disabled = true; });
  }));
  addEventListener("pageshow", () => all("button[data-idle]").forEach((button) => {
    button.disabled = false;
    button.textContent = button.dataset.idle;
  }));

  // A job: its numbers every second, the page again when it is over.
  const job = document.querySelector("[data-job]");
  if (job) {
    const bar = job.querySelector("progress"), count = job.querySelector("[data-count]");
    const state = job.querySelector("[data-state]");
    let wait = 700;
    const look = async () => {
      try {
        const answer = await fetch(job.dataset.job, { cache: "no-store" });
        if (answer.ok) {
          const now = await answer.json();
          if (now.status === "done" || now.status === "failed") { location.reload(); return; }
          state.textContent = now.status;
          if (now.total) {
            bar.max = now.total;
            bar.value = now.done;
            count.textContent = `${now.done.toLocaleString("en")} of ${now.total.toLocaleString("en")}`;
          }
          wait = 700;
        } else wait = Math.min(15000, wait * 2);
      } catch { wait = Math.min(15000, wait * 2); }
      setTimeout(look, wait);
    };
    setTimeout(look, wait);
  }
})();
