// Light or dark: as the system has it, until the visitor says otherwise.

import { computed, effect, signal } from '@preact/signals';

type Theme = 'light' | 'dark';
const STORED_AS = 'receipts.theme';
const system = matchMedia('(prefers-color-scheme: dark)');
const preferred = signal<Theme>(system.matches ? 'dark' : 'light');
const chosen = signal<Theme | null>(stored());

system.addEventListener('change', () => (preferred.value = system.matches ? 'dark' : 'light'));

export const theme = computed<Theme>(() => chosen.value ?? preferred.value);

effect(() => {
  document.documentElement.dataset.theme = theme.value;
});

export function toggleTheme(): void {
  const next: Theme = theme.peek() === 'dark' ? 'light' : 'dark';
  chosen.value = next === preferred.peek() ? null : next;
  try {
    if (chosen.value) localStorage.setItem(STORED_AS, chosen.value);
    else localStorage.removeItem(STORED_AS);
  } catch {
    // Storage may be forbidden: then it lasts until the page is left.
  }
}

function stored(): Theme | null {
  try {
    const value = localStorage.getItem(STORED_AS);
    return value === 'light' || value === 'dark' ? value : null;
  } catch {
    return null;
  }
}
