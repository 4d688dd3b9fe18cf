// The panels at the sides: beside the conversation where there is room, over it where there is not.

import { find } from "./dom.ts";
import { preferences, setPreferences } from "./preferences.ts";

export class Panels {
  #sidebar = find("sidebar");
  #machine = find("machine");
  #main = find("main");
  #narrow = matchMedia("(max-width: 52rem)"); // as in style.css
  #medium = matchMedia("(max-width: 76rem)");
  #sidebarOpen = !this.#narrow.matches;
  #machineOpen = preferences().machineOpen;

  constructor(private showMachine: (open: boolean) => void) {
    find("toggle-sidebar").addEventListener("click", () => this.#setSidebar(!this.#sidebarOpen));
    find("toggle-machine").addEventListener("click", () => this.#setMachine(!this.#machineOpen));
    find("close-sidebar").addEventListener("click", () => this.#setSidebar(false));
    find("close-machine").addEventListener("click", () => this.#setMachine(false));
    this.#narrow.addEventListener("change", () => this.#setSidebar(!this.#narrow.matches));
    this.#medium.addEventListener("change", () => this.#draw());
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !this.#covered()) return;
      event.preventDefault();
      this.closeOverlays();
    });
    find("shade").addEventListener("click", () => this.closeOverlays());
  }

  start(): void {
    if (this.#medium.matches) this.#machineOpen = false;
    this.#draw();
  }

  closeOverlays(): void {
    if (this.#narrow.matches && this.#sidebarOpen) this.#setSidebar(false);
    if (this.#medium.matches && this.#machineOpen) this.#setMachine(false);
  }

  #covered(): boolean {
    return (this.#narrow.matches && this.#sidebarOpen) || (this.#medium.matches && this.#machineOpen);
  }

  #setSidebar(open: boolean): void {
    this.#sidebarOpen = open;
    this.#draw();
    if (open && this.#narrow.matches) find("close-sidebar").focus();
    if (!open) find("toggle-sidebar").focus();
  }

  #setMachine(open: boolean): void {
    this.#machineOpen = open;
    setPreferences({ machineOpen: open });
    this.#draw();
    if (open && this.#medium.matches) find("close-machine").focus();
    if (!open) find("toggle-machine").focus();
  }

  #draw(): void {
    this.#sidebar.hidden = !this.#sidebarOpen;
    this.showMachine(this.#machineOpen);
    find("toggle-sidebar").setAttribute("aria-expanded", String(this.#sidebarOpen));
    find("toggle-machine").setAttribute("aria-expanded", String(this.#machineOpen));
    const covered = this.#covered();
    this.#main.inert = covered;
    this.#sidebar.inert = covered && this.#machineOpen && this.#medium.matches;
    this.#machine.inert = false;
    find("shade").hidden = !covered;
  }
}
