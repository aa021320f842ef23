// One of a few values, chosen from a list with a name.

interface Props<T extends string> {
  name: string;
  value: T;
  /** Each value with its text. */
  options: readonly (readonly [value: T, text: string])[];
  onSelect: (value: T) => void;
}

export function Select<T extends string>({ name, value, options, onSelect }: Props<T>) {
  return (
    <label class="pick">
      <span>{name}</span>
      <select value={value} onChange={(event) => onSelect(event.currentTarget.value as T)}>
        {options.map(([one, text]) => (
          <option key={one} value={one}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}
