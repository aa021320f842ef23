// A table of what an account has, or a sentence where it has none.

import { type ComponentChildren, toChildArray } from 'preact';

/** Heading of a column: its text, of numbers, or read aloud only. */
export type Heading = string | { text: string; as: 'number' | 'unseen' };

export const ACTIONS: Heading = { text: 'Actions', as: 'unseen' };

interface Props {
  headings: Heading[];
  /** What is said where there are no rows. */
  empty?: string;
  /** The rows. */
  children: ComponentChildren;
}

export function Things({ headings, empty, children }: Props) {
  if (empty && toChildArray(children).length === 0) return <p class="empty">{empty}</p>;
  return (
    <table class="things">
      <thead>
        <tr>
          {headings.map((heading) =>
            typeof heading === 'string' ? (
              <th key={heading} scope="col">
                {heading}
              </th>
            ) : (
              <th key={heading.text} scope="col" class={heading.as === 'number' ? 'number' : undefined}>
                {heading.as === 'unseen' ? <span class="unseen">{heading.text}</span> : heading.text}
              </th>
            ),
          )}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  );
}
