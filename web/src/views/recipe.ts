/** A recipe as it was given: text stays text, an object becomes indented JSON (which is also YAML). */
export function recipeText(recipe: unknown): string {
  return typeof recipe === "string" ? recipe : JSON.stringify(recipe, null, 2);
}
